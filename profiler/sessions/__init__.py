"""Starting processes: builds, sessions, their locks, time limits and recovery."""
