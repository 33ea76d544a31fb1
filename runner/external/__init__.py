"""What runs in place of an external program."""
