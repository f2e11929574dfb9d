"""The verbs of the command: one verb, one function; `service/cli.py` runs them."""
