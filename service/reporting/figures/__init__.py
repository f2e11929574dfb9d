"""The figures of a report, chosen by what a study asked: one file a figure."""
