"""What this machine is and can do, and its clocks while a session runs."""
