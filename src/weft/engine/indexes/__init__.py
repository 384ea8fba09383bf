"""What is kept up to date so that no event has to go through all tasks (design section 6)."""
