"""Draws the figures of a report; each module has the figures of one kind."""
