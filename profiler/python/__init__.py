"""What a Python program or a notebook calls: runs as data, and runs of its own experiments."""
