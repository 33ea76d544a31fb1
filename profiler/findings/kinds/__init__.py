"""Findings for the questions of some kinds of page: steps, grids, waves, timers."""
