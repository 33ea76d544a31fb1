"""Ways to damage a file, the same ones at each run of the tests."""

import gzip
import json
import random
import re

SEED = 20260304
ODD_VALUES = (None, True, -1, 10**400, 1e308, "", "x", "\x00", [], {}, [[]], {"a": {}}, [None])
TOO_DEEP = b'{"a":' + b"[" * 5000 + b"]" * 5000 + b"}"
WHOLE_TEXTS = (b"", b"null", b"[]", b"{}", b"\xff\xfe", b"\x00" * 64, b"NaN", TOO_DEEP)


ODD_NUMBERS = (
    *(b"1e300", b"-1e300", b"1e999", b"-1", b"0", b"1.5", b"1e18", b"NaN", b"Infinity", b"1e-400"),
    *(b"9223372036854775808", b"-9223372036854775809", b"18446744073709551616", b"9" * 400),
    *("3\u00b2".encode(), "\u0663".encode(), b"0x" + b"f" * 5000, b"9" * 5000, b"1,23", b"1_000"),
    *(b"", b"null", b"[]", b"[" * 3000 + b"]" * 3000),
)
_NUMBER = re.compile(rb"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")


def damaged_texts(content, budget):
    """`budget` damaged versions of a text, and the contents that damage it most."""
    yield from damaged_versions(content, budget)
    yield from WHOLE_TEXTS


def damaged_versions(content, budget):
    """`budget` damaged versions of a text: cut, with flipped bits, or of odd values."""
    source = random.Random(SEED)  # noqa: S311 - no secret is made of it
    kinds = [_cut, _flipped] + ([_odd_value, _huge_number] if _is_json(content) else [])
    kinds += [_odd_number, _line_again] * bool(_NUMBER.search(content))
    for number in range(budget):
        yield kinds[number % len(kinds)](content, source)


def damaged_lines(content, budget):
    """`budget` versions of a text of JSON lines, each with one line damaged."""
    source = random.Random(SEED)  # noqa: S311 - no secret is made of it
    lines = content.splitlines(keepends=True)
    for number in range(budget):
        place = source.randrange(len(lines))
        damaged = (_flipped, _odd_value, _huge_number)[number % 3](lines[place].strip(), source)
        yield b"".join([*lines[:place], damaged, b"\n", *lines[place + 1 :]])


def damaged_files(content, budget):
    """The same of a packed file: its bytes are damaged, or what is packed in it."""
    text = gzip.decompress(content)
    half = budget // 2
    source = random.Random(SEED)  # noqa: S311
    for number in range(half):
        yield (_cut, _flipped)[number % 2](content, source)
    for damaged in damaged_texts(text, budget - half):
        yield gzip.compress(damaged)


def _is_json(content):
    try:
        return isinstance(json.loads(content), dict)
    except ValueError:
        return False


def _cut(content, source):
    return content[: source.randrange(len(content))]


def _flipped(content, source):
    damaged = bytearray(content)
    for _ in range(source.choice((1, 1, 1, 8))):
        damaged[source.randrange(len(damaged))] ^= 1 << source.randrange(8)
    return bytes(damaged)


def _odd_number(content, source):
    """One number, wherever it stands, is another, or none."""
    start, end = source.choice([match.span() for match in _NUMBER.finditer(content)])
    return content[:start] + source.choice(ODD_NUMBERS) + content[end:]


def _line_again(content, source):
    """A line stands at another place as well."""
    lines = content.splitlines(keepends=True)
    lines.insert(source.randrange(len(lines) + 1), source.choice(lines))
    return b"".join(lines)


def _odd_value(content, source):
    document = json.loads(content)
    inside = document
    while True:
        key = source.choice(list(inside) if isinstance(inside, dict) else range(len(inside)))
        below = inside[key]
        if not isinstance(below, dict | list) or not below or source.random() < 0.3:
            break
        inside = below
    if source.random() < 0.2 and isinstance(inside, dict):
        del inside[key]
    else:
        inside[key] = source.choice(ODD_VALUES)
    return json.dumps(document).encode()


def _huge_number(content, source):
    """A number beyond all floats or digits in place of a value."""
    document = json.loads(content)
    document[source.choice(list(document))] = "HERE"
    huge = source.choice((b"1e999", b"-1e999", b"NaN", b"9" * 5000))
    return json.dumps(document).encode().replace(b'"HERE"', huge)
