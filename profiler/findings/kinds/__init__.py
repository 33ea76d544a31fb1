"""What the questions of some kinds of page are about: steps, grids, waves, timers."""
