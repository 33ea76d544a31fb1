"""Pure functions over frames: samples, summaries, rankings, limits."""
