"""Commands about more than one run of an experiment: its history, and the gate of a commit."""
