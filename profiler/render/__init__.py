"""Console tables, figures and the page: from a `Report` to text that people read."""
