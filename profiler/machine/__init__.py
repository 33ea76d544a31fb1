"""The machine: its devices and tools, its clocks while a session runs, its locks and signals."""
