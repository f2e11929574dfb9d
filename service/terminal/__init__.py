"""Prints what a person sees in a terminal: the live table and the lists."""
