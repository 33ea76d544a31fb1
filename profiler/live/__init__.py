"""The live stage: which visits are missing, and making them."""
