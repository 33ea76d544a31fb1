"""Output of tools -> frames and facts: CSV of ncu, logs of ptxas, object files."""
