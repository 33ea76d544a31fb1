"""Operators that can be fused: as torch runs them, as inductor compiles them, and by hand."""
