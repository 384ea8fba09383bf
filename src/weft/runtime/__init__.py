"""The loop: one journal, one engine, one world."""
