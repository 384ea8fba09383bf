"""What happened: the story of runs, attempts and machines, told by the entries of a journal."""
