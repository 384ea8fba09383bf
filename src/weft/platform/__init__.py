"""Where workflows can run: machines, their shares, sites and links; files, short forms and random platforms.

The modules are imported directly (``weft.platform.machine``, ...), so that what needs no arrays loads none.
"""
