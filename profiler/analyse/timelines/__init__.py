"""What timelines are summed up with."""
