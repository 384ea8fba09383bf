"""The compiled inner loops: plain functions over arrays and numbers, and nothing else.

``forms.py`` says how one source runs both as plain Python and compiled; read it first.
"""
