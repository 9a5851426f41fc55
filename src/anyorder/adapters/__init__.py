"""Front doors that people know from elsewhere, over the same engine."""
