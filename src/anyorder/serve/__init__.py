"""Any-order generation over HTTP: rows of all requests share batches, and join and leave at every step."""
