"""Sessions whose starts overlap: which come next, and the processes that wait for their turn."""
