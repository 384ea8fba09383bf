"""Jobs: what the program of an attempt is given."""
