"""What keeps studies from running well, or safely, on a machine or a cluster, and what to do about it."""
