"""Text of pages: sentences, cards, names, numbers and units."""
