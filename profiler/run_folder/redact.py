"""Taking out of a text what is private to this machine: its folders and its user's name."""

from __future__ import annotations

import contextlib
import getpass
import json
import re
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

PrivateTexts = Sequence[tuple[str, str]]
"""(text, replacement) pairs, longest first."""


def private_texts(folder: Path) -> list[tuple[str, str]]:
    """Folders and names of this machine, and what to write instead; `folder` is that of a run."""
    pairs = {
        str(folder.resolve()): "RUN",
        str(Path.cwd()): ".",
        sys.prefix: "PYTHON",
        tempfile.gettempdir(): "TMP",
    }
    # A container may run under a number that has neither a name nor a home.
    with contextlib.suppress(RuntimeError):
        pairs[str(Path.home())] = "HOME"
    with contextlib.suppress(KeyError, OSError):
        # By itself a name such as `runner` would also be found where no user is meant.
        pairs[f"/{getpass.getuser()}/"] = "/USER/"
    pairs.pop("/", None)
    return sorted(pairs.items(), key=lambda pair: -len(pair[0]))


def without_private(text: str, private: PrivateTexts) -> str:
    """Text with everything private replaced; a folder counts as a whole (`/a` is not in `/ab`)."""
    for old, new in private:
        # JSON writes letters outside ASCII as escapes.
        for spelling in dict.fromkeys((old, json.dumps(old)[1:-1])):
            if spelling in text:
                end = "" if old.endswith("/") else r"(?![\w-])"
                text = new.join(re.split(re.escape(spelling) + end, text))
    return text
