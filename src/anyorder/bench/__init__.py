"""How fast: our decoders beside the loops that others write, beside other engines, and beside the machine's limit."""
