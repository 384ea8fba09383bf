"""Inner loops over flat arrays that run as plain Python or compiled by numba.

Read ``compilation.py`` first: it defines what a kernel is and how it is called.
"""
