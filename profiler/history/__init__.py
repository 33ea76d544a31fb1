"""The answers of all runs: kept in one file, and what changed in them, since when and where."""
