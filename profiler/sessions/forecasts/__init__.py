"""What a run will take: of a plan before it starts, and of the rest while it goes on."""
