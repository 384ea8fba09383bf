"""Exact planners: they search until no better plan can exist, and say how far from that they are."""
