"""The folder of a run: written, read back, and redacted for sharing."""
