"""Why a kernel takes its time: accounts, roofs, causes, instructions; counters in, data out."""
