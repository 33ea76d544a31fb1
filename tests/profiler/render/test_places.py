"""Where a verdict holds, in words: names of few problems, else what they alone have in common."""

import pytest

from profiler.model import Problem
from profiler.render.words.places import places

SIZES = (128, 512, 2048, 8192)
PROBLEMS = [
    Problem(f"{rows}-{columns}-{dtype}", f"{rows} x {columns} {dtype}", params)
    for rows in SIZES
    for columns in SIZES
    for dtype in ("float16", "float32")
    for params in [{"rows": rows, "columns": columns, "dtype": dtype}]
]


@pytest.mark.parametrize(
    ("keeps", "words"),
    [
        (lambda rows, columns, dtype: (rows, columns, dtype) == (512, 128, "float16"),
         "512 x 128 float16"),
        (lambda rows, columns, dtype: dtype == "float16", "the 16 with dtype=float16"),
        (lambda rows, columns, dtype: rows <= 512, "the 16 with rows=128 or 512"),
        (lambda rows, columns, dtype: rows >= 512, "the 24 with rows \u2265 512"),
        (lambda rows, columns, dtype: rows >= 512 and columns == 128,
         "the 6 with rows \u2265 512 and columns=128"),
        (lambda rows, columns, dtype: columns == 128 and rows + (dtype == "float32") != 128,
         "7, all with columns=128"),
        (lambda rows, columns, dtype: columns in (128, rows),
         "14: the 8 with columns=128, 6 others"),
        (lambda rows, columns, dtype: 8192 in (rows, columns) and (rows, columns) != (128, 8192),
         "12: the 8 with rows=8192, 4 others"),
        (lambda rows, columns, dtype: rows == columns, "8"),
        (lambda rows, columns, dtype: True, "32"),
    ],
)  # fmt: skip
def test_problems_are_named_or_told_by_what_they_have_in_common(keeps, words):
    assert places([each for each in PROBLEMS if keeps(**each.params)], PROBLEMS) == words


def test_a_parameter_that_some_problems_have_tells_them_from_the_others():
    with_width = [Problem(f"w{n}", f"w{n}", {"size": 1, "width": n}) for n in (64, 128, 256)]
    large = [Problem(f"l{n}", f"l{n}", {"n": n << 20}) for n in range(8)]
    assert places(large[:3], large) == "the 3 with n \u2264 2097152"
    others = [Problem(f"d{n}", f"d{n}", {"size": 1, "depth": n}) for n in range(4)]
    assert places(with_width, [*with_width, *others]) == "the 3 with width"
