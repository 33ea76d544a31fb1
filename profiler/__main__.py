"""`python -m profiler`: hands over to the command line."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Entry point; Ctrl-C while the command line is imported ends the program without a message."""
    try:
        from profiler.cli import main as command_line  # noqa: PLC0415 - it takes a fifth of a second
    except KeyboardInterrupt:
        sys.exit(130)
    command_line()


if __name__ == "__main__":
    main()
