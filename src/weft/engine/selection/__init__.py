"""Which machines may be used: what has to be asked first, and what follows from the answers (S3 section 3)."""
