"""What was planned: the schedule, its independent verification, metrics and lower bounds."""
