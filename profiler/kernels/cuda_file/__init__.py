"""Kernels of a `.cu` file that an experiment file describes, without Python of the user's."""
