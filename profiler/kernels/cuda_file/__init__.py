"""Kernels of a `.cu` file that an experiment file describes: no Python of the user's."""
