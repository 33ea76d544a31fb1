"""Measuring on workers of Dask: one problem on one GPU; what travels, and what comes of it."""
