"""Tables of pages as plain rows."""
