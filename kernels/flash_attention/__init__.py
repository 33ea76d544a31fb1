"""FlashAttention-2 forward: one CUDA kernel with 13 fields, its autotune space and its ladder."""
