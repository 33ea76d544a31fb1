"""The folder of a capture: `calls.json`, data that names operators and holds no code."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

CALLS_FILE = "calls.json"
VALUES_FOLDER = "values"
SCHEMA_VERSION = 2


class CapturedFolderError(Exception):
    """A folder is no capture, or of another version; the message says which."""


def write_json(file: Path, document: Mapping[str, Any]) -> None:
    """Replace a file in one step, so that a program that is killed leaves it whole."""
    beside = file.with_suffix(".part")
    beside.write_text(json.dumps(document, allow_nan=False), encoding="utf-8")
    os.replace(beside, file)  # noqa: PTH105 - of paths of one folder


def read_calls(folder: Path) -> dict[str, Any]:
    """The document of a captured folder; raises CapturedFolderError."""
    try:
        document = json.loads((folder / CALLS_FILE).read_text(encoding="utf-8"))
        version = document["schema_version"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CapturedFolderError(f"{folder / CALLS_FILE} cannot be read: {error}") from error
    if version != SCHEMA_VERSION:
        raise CapturedFolderError(
            f"{folder / CALLS_FILE} is of version {version}; this profiler reads {SCHEMA_VERSION}"
        )
    return dict(document)
