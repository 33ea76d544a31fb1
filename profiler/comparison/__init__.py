"""Runs against runs: which cells two or more run folders share, and what is true of them."""
