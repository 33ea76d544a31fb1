"""Comparison of runs: common cells of two or more run folders, with changes and verdicts."""
