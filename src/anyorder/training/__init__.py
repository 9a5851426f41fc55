"""Data, objectives and trainers."""
