"""Defines the verbs of the command, one function each; `service/cli.py` runs them."""
