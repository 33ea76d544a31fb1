"""Whether what a variant gives is right: compared, once more on other inputs, within rounding."""
