import pytest
from hypothesis import given
from hypothesis import strategies as st

from profiler.kernels.arithmetic import ExpressionError, parse

VALUES = {"rows": 4096, "columns": 1000, "tile": 32, "half": 0.5, "dtype": "float16", "wide": True}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("ceil_div(columns, tile)", 32),
        ("2 * rows * columns * size_of(dtype)", 2 * 4096 * 1000 * 2),
        ("size_of(float64) * size_of(int8)", 8),
        ("(rows - 1) // tile + 1", 128),
        ("rows % 1000", 96),
        ("rows / tile", 128.0),
        ("-tile ** 2", -1024),
        ("min(rows, columns, 7)", 7),
        ("max(tile, 64) if wide else 1", 64),
        ("8 if dtype == 'float16' else 4", 8),
        ("1 if 1 < tile <= 32 and not half > 1 else 0", 1),
        ("tile > 32 or rows > 32", True),
        ("(half > 1 or tile) * 2 + (0 * rows and columns)", 64),
        ("tile in [16, 32] and dtype not in ('float32', 'int8')", True),
        ("rows in [tile, tile * 2]", False),
        ("wide == true and not false", True),
        (16, 16),
        ("0x10", 16),
    ],
)
def test_values(text, value):
    assert parse(text).value(VALUES) == value


def test_names_are_known_before_there_are_values():
    parsed = parse("ceil_div(columns, 4 * tile) if wide else max(rows, 1)")
    assert parsed.names == {"columns", "tile", "wide", "rows"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("rows +", "is no arithmetic"),
        ("ceil_div(rows", "'(' was never closed"),
        ("rows.real", "'rows.real' is no arithmetic"),
        ("__import__('os')", "no function '__import__'"),
        ("(lambda: 1)()", "no function"),
        ("[1, 2]", "is no arithmetic"),
        ("rows[0]", "is no arithmetic"),
        ("rows @ tile", "is no arithmetic"),
        ("rows is tile", "is no arithmetic"),
        ("rows in tile", "is no arithmetic"),
        ("1 < rows in [tile]", "is no arithmetic"),
        ("f'{rows}'", "is no arithmetic"),
        ("b'x'", "is no arithmetic"),
        ("None", "is no arithmetic"),
        ("min(rows, key=abs)", "takes values in order"),
        ("min()", "takes values in order"),
        ("1 +" * 600 + "1", "more than 1000 characters"),
        ("(" * 400 + "1" + ")" * 400, "is no arithmetic"),
        ("-" * 990 + "1", "is nested deeper than 100 levels"),
    ],
)
def test_what_is_no_arithmetic_is_refused(text, message):
    with pytest.raises(ExpressionError) as raised:
        parse(text).value({})
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("colums + 1", "there is no 'colums'; did you mean 'columns'?"),
        ("rows // (tile - 32)", "divides by zero"),
        ("dtype * 2", "cannot calculate with 'float16' and 2"),
        ("dtype < 2", "cannot compare 'float16' with 2"),
        ("-dtype", "cannot calculate with 'float16'"),
        ("max(dtype, 2)", "max('float16', 2) has no value"),
        ("9 ** 9 ** 9", "too large"),
        ("2 ** 200 * 2 ** 200", "too large"),
        ("(0 - 1) ** half", "no number"),
        ("size_of('float')", "size_of('float')"),
        ("ceil_div(rows)", "ceil_div(4096) has no value: too few"),
    ],
)
def test_what_has_no_value_says_why(text, message):
    with pytest.raises(ExpressionError) as raised:
        parse(text).value(VALUES)
    assert message in str(raised.value)


def test_a_size_is_whole():
    assert parse("rows / 2").whole_number(VALUES) == 2048
    with pytest.raises(ExpressionError, match=r"0\.5, which is no whole number; // and ceil_div"):
        parse("half").whole_number(VALUES)
    with pytest.raises(ExpressionError, match="'float16', which is no number"):
        parse("dtype").whole_number(VALUES)


@pytest.mark.parametrize("size", ["2**12", "4 * 1024", "4096"])
def test_a_size_that_was_written_as_arithmetic_is_worked_out(size):
    for text in ("rows", "rows * 4"):
        with pytest.raises(ExpressionError, match=r"are not calculated, write 4096$"):
            parse(text).whole_number({"rows": size})


@given(st.text(max_size=40))
def test_no_text_gets_anything_else_done(text):
    try:
        value = parse(text).value(VALUES)
    except ExpressionError:
        return
    assert isinstance(value, str | int | float | bool)
