"""What a live search knows: its journal, its noise, and what follows from both; no process."""
