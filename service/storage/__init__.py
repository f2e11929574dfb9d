"""The files of a home: the journal, the outcomes, the editions, and the history that they add up to."""
