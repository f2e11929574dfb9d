"""Durations in words, at the ends of what each way of writing them is for."""

from search_spaces.words import clock, duration, rough_time

DURATIONS = [
    (3.21, "3.2 s"), (9.94, "9.9 s"), (10, "10 s"), (59.4, "59 s"), (59.6, "1 min 00 s"), (60, "1 min 00 s"),
    (250, "4 min 10 s"), (3599.4, "59 min 59 s"), (3600, "1 h 00 min"), (11100, "3 h 05 min"),
]  # fmt: skip
CLOCKS = [
    (0, "00:00"), (59.6, "01:00"), (190, "03:10"), (3599, "59:59"), (3600, "1:00:00"), (7500, "2:05:00"),
]  # fmt: skip
ROUGH = [
    (0, "0 s"), (0.072, "4.3 s"), (0.6, "36 s"), (0.99, "59 s"), (0.995, "1 min"), (1.44, "1.4 min"), (28, "28 min"),
    (89.4, "89 min"), (89.6, "1.5 h"), (132, "2.2 h"), (300, "5 h"), (9180, "150 h"), (92_000, "1,500 h"),
]  # fmt: skip


def test_durations_read_as_people_say_them() -> None:
    for write, known in ((duration, DURATIONS), (clock, CLOCKS), (rough_time, ROUGH)):
        assert [write(time) for time, _ in known] == [text for _, text in known]
