"""Operator calls of a user's program, recorded while it runs, and replayed as an experiment."""
