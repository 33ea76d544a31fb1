"""Verdicts, winners, ties and costs of a run: found once, printed elsewhere."""
