"""What must hold after every event (spec unified section 8), found out apart from the code that decides."""
