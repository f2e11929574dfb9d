"""The door to Ray Tune: the only rooms that know it, and that open a session with Ray."""
