"""Why: what limits the kernels of a cell, and what two cells differ by."""
