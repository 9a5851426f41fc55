"""Measurements, one command each."""
