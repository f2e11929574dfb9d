"""The report of a study: its page, tables, figures and words. Reads findings; writes one folder."""
