"""Other systems token for token, as compositions of the core: the paper authors' code, and those of `systems`."""
