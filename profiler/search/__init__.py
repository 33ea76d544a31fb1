"""Searching a space of configurations that is too large to measure whole."""
