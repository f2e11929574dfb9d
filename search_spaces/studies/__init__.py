"""One file a paper or question. A file's name is its study's, with `_` for `-`; it opens like a lab note."""
