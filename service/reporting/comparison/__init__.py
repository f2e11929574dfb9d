"""The page on which two studies are compared."""
