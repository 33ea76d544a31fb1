"""The answers of all runs, kept in one file, and their changes over time."""
