"""Sessions that stand and take orders: what a search measures with."""
