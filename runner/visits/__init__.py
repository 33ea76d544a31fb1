"""Visits and their records by collector; CUPTI has a folder of its own."""
