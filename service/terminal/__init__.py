"""What a person sees in a terminal: live table, lists."""
