"""Two studies, or two code versions of one, set against each other."""
