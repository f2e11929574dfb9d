"""One file a table of a paper that several studies fill."""
