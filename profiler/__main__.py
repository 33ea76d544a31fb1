"""`python -m profiler`: hands over to the command line."""

from __future__ import annotations

import os
import sys

__all__ = ["main"]


def _forget_current_folder() -> None:
    """`python -m` searches the current folder first: a `numpy.py` there is none of ours."""
    here = os.getcwd()  # noqa: PTH109 - pathlib is not imported so far
    own = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120
    if sys.path[0] in ("", here) and own != here:
        del sys.path[0]


def main() -> None:
    """Entry point; Ctrl-C while the command line is imported ends it without a word, too."""
    try:
        from profiler.cli import main as command_line  # noqa: PLC0415 - it takes a fifth of a second
    except KeyboardInterrupt:
        sys.exit(130)
    command_line()


if __name__ == "__main__":
    _forget_current_folder()
    main()
