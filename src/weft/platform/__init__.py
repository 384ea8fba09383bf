"""Platforms: machines, virtual shares, sites and links; platform files, short forms and random platforms."""
