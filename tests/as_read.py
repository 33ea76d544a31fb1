"""What is printed, shown and written, as tests read it."""

import base64
import io
import json
import re
import zlib

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


def data_of_page(page, name="data"):
    """Data inside a page, as its script reads them."""
    packed = re.search(rf'<script [^>]*id="{name}">([^<]*)</script>', page)[1]
    return unpacked(packed)


def unpacked(packed):
    """Document of a packed text (`embed.pack`)."""
    assert re.fullmatch(r"[A-Za-z0-9+/]+=*", packed), "nothing of HTML"
    return strict_json(zlib.decompress(base64.b64decode(packed)))
