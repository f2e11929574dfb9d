"""The door to Ray Train: trains one run in this process or in a group of workers."""
