"""Writes the report of a study, its page, tables, figures and words, from its findings into one folder."""
