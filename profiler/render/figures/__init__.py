"""Figures: each takes a prepared table and draws it."""
