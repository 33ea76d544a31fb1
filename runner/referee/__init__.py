"""A candidate that may cheat, in a process that has nothing to cheat with (docs/referee.md)."""
