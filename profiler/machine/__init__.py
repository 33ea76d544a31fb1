"""What this machine is and can do, its clocks while a session runs, and signals that end it."""
