"""Live searches: build and measure the proposals of a strategy, then confirm the finalists."""
