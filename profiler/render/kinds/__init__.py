"""The part of a page that its kind decides, and the figures of its first screen."""
