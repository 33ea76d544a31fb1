"""The line of an exception that says most, and where it was raised."""

from __future__ import annotations

import re
import traceback
from itertools import takewhile
from pathlib import Path

_OF_COMPILER = re.compile(
    r"(?:[:(]\d+\)?(?::\d+)?\s*:|line \d+;|^(?:ptxas|nvcc|nvlink|ld)\b)"
    r"\s*(?:fatal error|fatal|error)\b"
)
"""`main.cpp:2:33: error:` of gcc and clang, `kernel.cu(3): error` of nvcc and NVRTC, `ptxas error`
or `ptxas kernel.ptx, line 9; error`."""
_PLACE_IN_TRITON = re.compile(r"at \d+:\d+:")


def telling_line(message: str) -> str:
    """The line of a message that says most: the first, or a compiler's first error.

    A line that ends with a colon goes on with the next one. Of Triton, which quotes the kernel and
    marks a place in it: the line of the place, and what is wrong there. Empty where the message is.
    """
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    errors = [line for line in lines if _OF_COMPILER.search(line)]
    if errors or not lines:
        return next(iter(errors), "")
    if _PLACE_IN_TRITON.fullmatch(lines[0]) and "^" in lines:
        caret = lines.index("^")
        return " ".join([lines[0], lines[caret - 1], *lines[caret : caret + 2]])
    heads = list(takewhile(lambda line: line.endswith(":"), lines))
    return " ".join(lines[: len(heads) + 1])


def innermost_frame(error: BaseException, file: Path) -> traceback.FrameSummary | None:
    """The innermost place in a file that led to an error; None where none did."""
    frames = traceback.extract_tb(error.__traceback__)
    return next((frame for frame in reversed(frames) if Path(frame.filename) == file), None)


def line_in(error: BaseException, file: Path) -> int | None:
    """Number of the innermost line of a file that led to an error; None where none did."""
    if isinstance(error, SyntaxError) and error.filename == str(file):
        return error.lineno
    frame = innermost_frame(error, file)
    return None if frame is None else frame.lineno
