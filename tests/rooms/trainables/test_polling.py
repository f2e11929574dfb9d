"""Waiting for an answer."""

from itertools import count

from trainables.polling import poll


def test_the_first_true_answer_is_returned():
    asked = count()
    assert poll(lambda: next(asked) // 3, every_s=0) == 1
    assert next(asked) == 4


def test_the_last_answer_is_returned_when_the_time_is_up():
    asked = count()
    assert poll(lambda: next(asked) and "", every_s=0, at_most_s=0) == 0
    assert next(asked) == 1
