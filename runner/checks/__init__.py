"""Checks of the results of variants: against a reference, and again on other inputs."""
