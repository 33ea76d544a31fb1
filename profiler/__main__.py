"""`python -m profiler`: hands over to the command line."""

from __future__ import annotations

from profiler.cli import main

__all__ = ["main"]

if __name__ == "__main__":
    main()
