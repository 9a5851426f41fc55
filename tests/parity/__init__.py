"""Parity: other systems' recorded outputs, replayed through our engine."""
