"""What is true of two or more runs side by side: found once, printed by all."""
