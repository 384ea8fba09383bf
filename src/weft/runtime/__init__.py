"""The driver loop for every backend, with journal, lock and planning budget."""
