"""Findings of two or more runs side by side: computed once, printed by all."""
