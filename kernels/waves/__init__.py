"""Wave quantisation: a kernel whose blocks all take the same time, on grids of any size."""
