"""What is said: sentences, cards, names, numbers and units."""
