"""The section of a report that shows what the encodings know: a table for each probe that the study names, figures."""
