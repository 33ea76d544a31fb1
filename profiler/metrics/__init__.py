"""The metric catalogue, queries of it, formulas, and passes of ncu."""
