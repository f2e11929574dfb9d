"""How studies are run: the only folder that knows the outside world."""
