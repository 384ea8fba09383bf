"""Experiments in real time: the papers' examples with real processes on this computer (unified section 9)."""
