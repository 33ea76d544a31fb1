"""What tools write -> frames and facts: CSV of ncu, logs of ptxas, object files."""
