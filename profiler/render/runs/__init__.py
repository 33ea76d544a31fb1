"""Pages of comparisons between runs."""
