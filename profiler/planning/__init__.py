"""From an experiment file to its plan: variants, problems, cells, sessions."""
