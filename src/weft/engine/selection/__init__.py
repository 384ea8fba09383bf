"""Which machines may be used: what has to be asked first, and what follows from it (S3 section 3)."""
