"""Row softmax: naive, shared memory, warp shuffles, online, and vectors kept in registers."""
