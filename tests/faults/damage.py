"""Ways to damage a file, the same ones for the same seed."""

import gzip
import json
import random
import re
import sqlite3
from contextlib import closing

SEED = 20260304
ODD_VALUES = (
    *(None, True, -1, 10**400, 1e308, -(2**63), 2**64, 1e-320, "", "x", "\x00", "\ud800", "-1"),
    *([], {}, [[]], {"a": {}}, [None], "nan", "../../x", "x" * 5000),
)
TOO_DEEP = b'{"a":' + b"[" * 5000 + b"]" * 5000 + b"}"
WHOLE_TEXTS = (b"", b"null", b"[]", b"{}", b"\xff\xfe", b"\x00" * 64, b"NaN", TOO_DEEP)
ODD_NUMBERS = (
    *(b"1e300", b"-1e300", b"1e999", b"-1", b"0", b"1.5", b"1e18", b"NaN", b"Infinity", b"1e-400"),
    *(b"9223372036854775808", b"-9223372036854775809", b"18446744073709551616", b"9" * 400),
    *("3\u00b2".encode(), "\u0663".encode(), b"0x" + b"f" * 5000, b"9" * 5000, b"1,23", b"1_000"),
    *(b"", b"null", b"[]", b"[" * 3000 + b"]" * 3000, b'"x"', b"true", b"10**30"),
)
ODD_WORDS = (
    *(b"", b"None", b"=1+1", b"*", b"[a-", b"..", b"%s", b"{}", b"\\", b"&a", b"*a", b"!!x", b"<<"),
    *(b"x" * 5000, b"\xed\xa0\x80", b"\xff", b"\x00", "\u202e".encode(), b"0", b"1e5", b"~", b"--"),
)
ODD_CELLS = (
    *(None, -1, 0, 2**63 - 1, -(2**63), 1e300, -1e300, 1e-320, float("inf")),
    *("", "x", "9" * 400, "\x00", "\ud7ff", b"\xff\xfe", b"", "NaN", "\u202e"),
)
_NUMBER = re.compile(rb"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
_WORD = re.compile(rb"[A-Za-z_][A-Za-z_0-9.]*")
_GZIP = b"\x1f\x8b"
_SQLITE = b"SQLite format 3\0"


def damaged_versions(content, budget, seed=SEED):
    """`budget` damaged versions of a file, packed or not."""
    source = random.Random(seed)  # noqa: S311 - no secret is made of it
    damaged = damager(content)
    for _ in range(budget):
        yield damaged(source)


def damager(content):
    """A function that gives a damaged version of a file, another one at each call."""
    if content.startswith(_GZIP):
        inside = damager(gzip.decompress(content))

        def packed(source):
            if source.random() < 0.3:
                return source.choice((_cut, _flipped))(content, source)
            return gzip.compress(inside(source), compresslevel=1)

        return packed
    kinds = list(_kinds(content))
    return lambda source: source.choice(kinds)(content, source)


def _kinds(content):
    yield from (_cut, _flipped, _piece_again)
    if content.startswith(_SQLITE):
        yield from (_odd_cell,) * 4
        yield from (_other_schema, _odd_letters)
        return
    yield _whole_text
    if _NUMBER.search(content):
        yield from (_odd_number, _odd_number)
    if _WORD.search(content):
        yield from (_odd_word, _words_exchanged, _odd_letters)
    if content.count(b"\n") > 1:
        yield from (_line_again, _line_gone, _lines_exchanged)
    if _is_json(content):
        yield from (_odd_value, _odd_value, _huge_number, _key_again)
    elif _is_json_lines(content):
        yield from (_in_a_line(_odd_value), _in_a_line(_huge_number), _in_a_line(_key_again))


def damaged_lines(content, budget, seed=SEED):
    """`budget` versions of a text of JSON lines, each with one line damaged."""
    source = random.Random(seed)  # noqa: S311 - no secret is made of it
    for number in range(budget):
        yield _in_a_line((_flipped, _odd_value, _huge_number)[number % 3])(content, source)


def _in_a_line(damage):
    def damaged(content, source):
        lines = content.splitlines(keepends=True)
        place = source.randrange(len(lines))
        lines[place] = damage(lines[place].strip(), source) + b"\n"
        return b"".join(lines)

    return damaged


def _is_json(content):
    try:
        return isinstance(json.loads(content), dict)
    except ValueError:
        return False


def _is_json_lines(content):
    lines = content.splitlines()
    return bool(lines) and all(map(_is_json, lines))


# ---- any bytes -----------------------------------------------------------------------------------


def _whole_text(_, source):
    return source.choice(WHOLE_TEXTS)


def _cut(content, source):
    return content[: source.randrange(len(content))]


def _flipped(content, source):
    damaged = bytearray(content)
    for _ in range(source.choice((1, 1, 1, 8))):
        damaged[source.randrange(len(damaged))] ^= 1 << source.randrange(8)
    return bytes(damaged)


def _piece_again(content, source):
    """A piece of the file stands at another place as well."""
    start, place = (source.randrange(len(content)) for _ in range(2))
    piece = content[start : start + source.choice((1, 10, 100, 1000))]
    return content[:place] + piece + content[place:]


# ---- texts ---------------------------------------------------------------------------------------


def _odd_number(content, source):
    """One number, wherever it stands, is another, or none."""
    return _replaced(content, _NUMBER, source, source.choice(ODD_NUMBERS))


def _odd_word(content, source):
    """One word, wherever it stands, is another."""
    return _replaced(content, _WORD, source, source.choice(ODD_WORDS))


def _words_exchanged(content, source):
    """A word stands in place of another."""
    (start, end), (first, last) = (_somewhere(content, _WORD, source) for _ in range(2))
    return content[:start] + content[first:last] + content[end:]


def _odd_letters(content, source):
    """Bytes that are no UTF-8, or ends of text, inside the words of a file."""
    damaged = bytearray(content)
    for _ in range(source.choice((1, 3, 10))):
        start, end = _somewhere(content, _WORD, source)
        damaged[source.randrange(start, end)] = source.choice((0xFF, 0x80, 0, 0xC3, 0xED, 0x7F))
    return bytes(damaged)


def _replaced(content, pattern, source, text):
    start, end = _somewhere(content, pattern, source)
    return content[:start] + text + content[end:]


def _somewhere(content, pattern, source):
    """Where a match is, found from a random place on, so that long files take no longer."""
    match = pattern.search(content, source.randrange(len(content))) or pattern.search(content)
    return match.span()


def _line_again(content, source):
    """A line stands at another place as well."""
    lines = content.splitlines(keepends=True)
    lines.insert(source.randrange(len(lines) + 1), source.choice(lines))
    return b"".join(lines)


def _line_gone(content, source):
    lines = content.splitlines(keepends=True)
    del lines[source.randrange(len(lines))]
    return b"".join(lines)


def _lines_exchanged(content, source):
    lines = content.splitlines(keepends=True)
    first, second = (source.randrange(len(lines)) for _ in range(2))
    lines[first], lines[second] = lines[second], lines[first]
    return b"".join(lines)


# ---- JSON ----------------------------------------------------------------------------------------


def _odd_value(content, source):
    document = json.loads(content)
    inside, key = _place_in(document, source)
    if source.random() < 0.2 and isinstance(inside, dict):
        del inside[key]
    else:
        inside[key] = source.choice(ODD_VALUES)
    return json.dumps(document).encode()


def _place_in(document, source):
    """An object or list of a document, and one of its keys or numbers."""
    inside = document
    while True:
        key = source.choice(list(inside) if isinstance(inside, dict) else range(len(inside)))
        below = inside[key]
        if not isinstance(below, dict | list) or not below or source.random() < 0.3:
            return inside, key
        inside = below


def _huge_number(content, source):
    """A number beyond all floats or digits in place of a value."""
    document = json.loads(content)
    inside, key = _place_in(document, source)
    inside[key] = "HERE"
    huge = source.choice((b"1e999", b"-1e999", b"NaN", b"9" * 5000, b"1e300", b"-0.0", b"1e18"))
    return json.dumps(document).encode().replace(b'"HERE"', huge)


def _key_again(content, source):
    """A key stands twice, the second time with an odd value."""
    document = json.loads(content)
    key = source.choice(list(document))
    again = json.dumps({key: source.choice(ODD_VALUES)})[1:]
    return (json.dumps(document)[:-1] + ", " + again).encode()


# ---- SQLite --------------------------------------------------------------------------------------


def _odd_cell(content, source):
    """Some rows of a column have another value, of any type."""
    with closing(_opened(content)) as database:
        table = source.choice(_tables(database))
        column = source.choice(_columns(database, table))
        chosen = source.choice(("1", "rowid % 2", "rowid = 1", "rowid % 7 = 3"))
        value = source.choice(ODD_CELLS)
        database.execute(f'UPDATE "{table}" SET "{column}" = ? WHERE {chosen}', [value])  # noqa: S608
        database.commit()
        return database.serialize()


def _other_schema(content, source):
    """A table or a column is gone, or has another name."""
    with closing(_opened(content)) as database:
        table = source.choice(_tables(database))
        column = source.choice(_columns(database, table))
        statement = source.choice(
            (
                f'DROP TABLE "{table}"',
                f'DELETE FROM "{table}"',  # noqa: S608
                f'ALTER TABLE "{table}" DROP COLUMN "{column}"',
                f'ALTER TABLE "{table}" RENAME COLUMN "{column}" TO "other"',
                f'ALTER TABLE "{table}" RENAME TO "other"',
            )
        )
        try:
            database.execute(statement)
            database.commit()
        except sqlite3.Error:  # a key, or the only column
            return content[:-1]
        return database.serialize()


def _opened(content):
    database = sqlite3.connect(":memory:")
    database.deserialize(content)
    return database


def _tables(database):
    rows = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
    return [name for (name,) in rows]


def _columns(database, table):
    return [row[1] for row in database.execute(f'PRAGMA table_info("{table}")')]
