"""What travels between a coordinator and its workers: JSON, and files with their hashes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from profiler.errors import UsageError
from profiler.run_folder.folder import TOOL_REPORT_FILE
from profiler.run_folder.workers import is_plain_name

_STAYS = (TOOL_REPORT_FILE, f"{TOOL_REPORT_FILE}.gz")
"""ncu's own report: 60 MB for 350 launches, and what is read later of it is in the CSV."""

Parcel = Mapping[str, Any]
"""`document`: JSON with the hash of each file under `hashes`; `digest`: its own hash; `files`:
content by name. What comes through the queue has `task` and `address` of the worker beside them."""


def content_hash(content: bytes) -> str:
    """SHA-256 of a content, in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def packed(document: Mapping[str, Any], files: Mapping[str, bytes] | None = None) -> Parcel:
    """Parcel of a JSON object and files."""
    files = dict(files or {})
    hashes = {name: content_hash(content) for name, content in files.items()}
    text = json.dumps({**document, "hashes": hashes})
    return {"document": text, "digest": content_hash(text.encode()), "files": files}


def unpacked(parcel: Parcel) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Document and files of a parcel.

    Raises UsageError where the files are not those whose hashes the document has, or where one has
    the name of another place.
    """
    text, files = str(parcel["document"]), dict(parcel["files"])
    if content_hash(text.encode()) != parcel["digest"]:
        raise UsageError("the document that arrived is not the one that was sent")
    document: dict[str, Any] = json.loads(text)
    hashes = document.pop("hashes")
    if hashes.keys() != files.keys():
        raise UsageError("what arrived lacks files, or has others than were sent")
    for name, content in files.items():
        if not is_plain_name(name):
            raise UsageError(f"what arrived has a file called {name!r}")
        if content_hash(content) != hashes[name]:
            raise UsageError(f"{name}: the content that arrived is not the one that was sent")
    return document, files


def files_of(folder: Path) -> dict[str, bytes]:
    """Files of an attempt that travel: not ncu's report, and nothing of its private folder."""
    return {
        path.name: path.read_bytes()
        for path in sorted(folder.iterdir())
        if path.name not in _STAYS
        and is_plain_name(path.name)
        and path.is_file()
        and not path.is_symlink()
    }
