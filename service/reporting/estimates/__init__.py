"""Tables of effect sizes and of data efficiency."""
