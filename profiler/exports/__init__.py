"""What leaves the profiler for programs of others: their formats, and comments on their sites."""
