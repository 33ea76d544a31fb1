"""The interface for Python programs and notebooks: runs as data, runs of their experiments."""
