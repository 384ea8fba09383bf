"""Jobs: what the program of an attempt is given, and what it tells through the files it leaves."""
