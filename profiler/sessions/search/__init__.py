"""Live searches: builds and measures what a strategy proposes, then hands on the finalists."""
