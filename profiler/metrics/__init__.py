"""The metric catalogue, what the rest of the project asks of it, and units."""
