"""What is printed, shown and written, as tests read it."""

import io
import json

from rich.console import Console


def printed(renderable, width=200):
    """Text that a console of so many columns prints of something, without colours."""
    stream = io.StringIO()
    Console(file=stream, width=width, color_system=None, highlight=False).print(renderable)
    return stream.getvalue()


def words(element):
    """Text of an element of a page, with single spaces."""
    return " ".join(element.text_content().split())


def strict_json(text):
    """JSON as other languages read it: no NaN, no Infinity."""

    def refuse(constant):
        raise AssertionError(f"{constant} is no JSON")

    return json.loads(text, parse_constant=refuse)
