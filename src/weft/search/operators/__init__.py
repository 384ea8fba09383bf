"""What a genetic search does to a generation."""
