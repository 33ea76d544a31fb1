"""The folder of a run: what is written, read back, and made fit to be shared."""
