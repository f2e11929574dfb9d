"""Durations in words, at the ends of what each way of writing them is for; spaces in words."""

from search_spaces.space import Above, Choice, Integer, Real, Space, Subset
from search_spaces.words import clock, duration, rough_time, space_words

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


def test_a_space_says_each_range_and_when_it_is_open() -> None:
    ratio = Real(low=1.1, high=8, points=3)
    space = Space(
        {
            "encoding.kind": Choice(options=("fourier", "irpe")),
            "model.depth": Integer(low=2, high=6, step=2),
            "model.num_heads": Integer(low=1, high=3),
            "encoding.places": Subset(of=(0, 1)),
        },
        given={
            "encoding.kind": {
                "fourier": {"encoding.gamma": Real(low=0.1, high=40, log=True)},
                "irpe": {"encoding.index.gamma": Above(other="encoding.index.beta", factor=ratio)},
            }
        },
    )
    assert space_words(space) == {
        "encoding.kind": "one of fourier, irpe",
        "model.depth": "2 to 6, in steps of 2",
        "model.num_heads": "1 to 3",
        "encoding.places": "any of 0, 1",
        "encoding.gamma, if encoding.kind is fourier": "0.1 to 40, on a log scale",
        "encoding.index.gamma, if encoding.kind is irpe": "1.1 to 8 times encoding.index.beta, 3 points on a grid",
    }
