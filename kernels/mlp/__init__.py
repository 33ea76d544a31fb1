"""Training steps of a multilayer perceptron: as torch runs them, compiled, and as CUDA graphs."""
