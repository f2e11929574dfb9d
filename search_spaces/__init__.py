"""What we wonder about: spaces, studies and claims, as data."""
