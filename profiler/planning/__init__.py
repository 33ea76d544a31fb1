"""From an experiment file to what will be measured: variants, problems, cells, sessions."""
