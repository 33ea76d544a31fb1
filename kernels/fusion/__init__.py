"""Fusible operators: run by torch, compiled by inductor, and written by hand."""
