"""Evaluation, the paper's tables and figures."""
