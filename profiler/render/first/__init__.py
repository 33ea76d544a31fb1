"""The figure of the first screen: one module for each form that it has."""
