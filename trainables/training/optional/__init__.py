"""What only some trainings need, a file each, imported where a recipe asks for it: so no other code digest holds it."""
