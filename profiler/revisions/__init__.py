"""Versions of one experiment by git revision: compared in one session, and bisected."""
