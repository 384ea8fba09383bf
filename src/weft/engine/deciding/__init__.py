"""What the engine decides: one file per concern, each a function of the state that gives commands."""
