"""Corpora: reading files, fetching public ones, test sets by name, token ids in memory."""
