"""What is remembered: journals, products, runs and requests, in one SQLite file; a journal also in lines."""
