"""What lies in a home: the journal, the outcomes, the editions, and what they add up to."""
