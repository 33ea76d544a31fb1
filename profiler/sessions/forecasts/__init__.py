"""Forecasts of durations: of a plan before a run, and of the rest of a session during it."""
