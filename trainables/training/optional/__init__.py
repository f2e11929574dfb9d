"""What only some trainings need, a file each, imported where a recipe or a placement asks for it."""
