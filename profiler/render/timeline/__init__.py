"""Timelines on a page: picture, tables, section."""
