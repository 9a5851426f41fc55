"""The equation p(G|X) as code: torch only, no strings, no files."""
