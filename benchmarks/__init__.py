"""Measurements: each prints a JSON line and lines that people can read."""
