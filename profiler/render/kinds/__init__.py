"""The part of a page that its kind decides: one module per kind."""
