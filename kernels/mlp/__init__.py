"""Training steps of a multilayer perceptron: eager, compiled, and as CUDA graphs."""
