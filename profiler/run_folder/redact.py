"""Removes texts that are private to a machine: its folders, its name and its user's name.

What was private on the machine of a run stands in `private/machine.json` of its folder: whoever
reads or records the run later, as another user or from another place, takes out the same. That
file is no part of a recording.
"""

from __future__ import annotations

import contextlib
import getpass
import hashlib
import json
import re
import socket
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from profiler.errors import UsageError
from profiler.model import Environment
from profiler.run_folder.documents import read_json

MACHINE_FILE = "private/machine.json"
PrivateTexts = Sequence[tuple[str, str]]
"""(text, replacement) pairs, longest first."""

_ANYBODY = frozenset(
    {
        "admin",
        "azureuser",
        "centos",
        "ci",
        "debian",
        "docker",
        "ec2-user",
        "gpu",
        "host",
        "jenkins",
        "jovyan",
        "localhost",
        "nobody",
        "opc",
        "root",
        "runner",
        "server",
        "test",
        "ubuntu",
        "user",
        "vagrant",
    }
)
"""Names that identify nobody and are words of many messages."""
_FEWEST_LETTERS = 2
_ERROR_KEYS = frozenset({"cause", "error", "failed", "fell_back"})
"""Keys of JSON in a run folder with free text of people and tools."""
_TOOL_MESSAGE = "=="
_PUBLIC_FOLDERS = ("/usr/", "/opt/")
"""Folders of installed toolkits and packages, which identify no user."""
_RAW_UUID = ("GPU-", "MIG-")
_DIGITS = 12


def public_environment(environment: Environment, seed: int) -> Environment:
    """A run's environment for sharing: the GPU's UUID becomes a hash, seeded by the run.

    Runs of one experiment can be told apart by it, and no list of machines leads back to it.
    """
    return replace(environment, gpu_uuid=_hashed_uuid(environment.gpu_uuid, seed))


def _hashed_uuid(uuid: str | None, seed: int) -> str | None:
    if uuid is None or not uuid.startswith(_RAW_UUID):
        return uuid
    return f"gpu-{hashlib.sha256(f'{seed}:{uuid}'.encode()).hexdigest()[:_DIGITS]}"


def machine_texts(folder: Path, environment: Environment, seed: int, base: Path) -> dict[str, Any]:
    """Private texts of this machine, for `private/machine.json` of the run in `folder`.

    `base` is the folder of the experiment file.
    """
    uuid = environment.gpu_uuid
    names = {**_names(), **({uuid: _hashed_uuid(uuid, seed)} if uuid is not None else {})}
    folders = _folders(folder)
    if not any(str(parent) in folders for parent in (base.resolve(), *base.resolve().parents)):
        folders[str(base.resolve())] = "SPEC"
    earlier = _machine_document(folder)
    return {
        "folders": {**earlier["folders"], **folders},
        "names": {**earlier["names"], **names},
    }


def joined_texts(folder: Path, document: Mapping[str, Any]) -> dict[str, Any]:
    """Private texts of the run in `folder` joined with another machine's (`machine_texts`)."""
    earlier = _machine_document(folder)
    return {kind: {**_texts(document.get(kind)), **texts} for kind, texts in earlier.items()}


def private_texts(folder: Path) -> list[tuple[str, str]]:
    """Folders of a run's machine and of this one, with their replacements."""
    return _longest_first({**_machine_document(folder)["folders"], **_folders(folder)})


def private_names(folder: Path) -> list[tuple[str, str]]:
    """Names of hosts and users of a run's machine and of this one, for `without_names`."""
    return _longest_first({**_machine_document(folder)["names"], **_names()})


@dataclass(frozen=True)
class Redaction:
    """Removes private texts of a run's machine from texts and files."""

    folders: PrivateTexts
    names: PrivateTexts
    """Taken out of the words of errors and tools alone."""

    @classmethod
    def of_run(cls, folder: Path) -> Redaction:
        """Redaction of the texts private to a run's machine and to this one."""
        return cls(private_texts(folder), private_names(folder))

    def redacted(self, text: str) -> str:
        """Redacted text of an error or a tool."""
        return without_names(without_private(text, self.folders), self.names)

    def redacted_file(self, name: str, text: str) -> str:
        """Redacted content of a file with this name."""
        return without_private(without_names_in_errors(name, text, self.names), self.folders)


def with_folders(private: PrivateTexts, folders: Iterable[str]) -> list[tuple[str, str]]:
    """`private` with a numbered replacement for each folder that it does not make relative.

    Of files that a tool names: a user's sources may lie anywhere.
    """
    absolute = [
        folder
        for folder in dict.fromkeys(folders)
        if folder.startswith("/")
        and not folder.startswith(_PUBLIC_FOLDERS)
        and not without_private(folder, private).startswith(".")
    ]
    numbered = {folder: f"SOURCES{number}" for number, folder in enumerate(absolute, start=1)}
    return _longest_first({**dict(private), **numbered})


def without_private(text: str, private: PrivateTexts) -> str:
    """Text with private texts replaced; a folder matches whole names (`/a` is not in `/ab`)."""
    for old, new in private:
        # JSON writes letters outside ASCII as escapes.
        for spelling in dict.fromkeys((old, json.dumps(old)[1:-1])):
            if spelling in text:
                end = "" if old.endswith("/") else r"(?![\w-])"
                text = new.join(re.split(re.escape(spelling) + end, text))
    return text


def without_names(text: str, names: PrivateTexts) -> str:
    """Text of an error or a tool with every private name replaced that is a word of its own.

    In whatever case, between whatever is no letter and no digit: `ALICE_tmp` names Alice.

    For such words only: a variant may have the name of a user.
    """
    for old, new in names:
        if old.lower() in text.lower():
            standing_alone = rf"(?<![^\W_]){re.escape(old)}(?![^\W_])"
            text = new.join(re.split(standing_alone, text, flags=re.IGNORECASE))
    return text


def without_names_in_errors(name: str, text: str, names: PrivateTexts) -> str:
    """Content of a run folder's file without private names in texts of errors and tools."""
    if not _may_name(text, names):
        return text
    if name.endswith(".jsonl"):
        return "\n".join(_json_text(line, names, None) for line in text.split("\n"))
    if name.endswith(".json"):
        return _json_text(text, names, 1)
    if name.endswith(".csv"):
        return "".join(
            without_names(line, names) if line.startswith(_TOOL_MESSAGE) else line
            for line in text.splitlines(keepends=True)
        )
    return text


def _may_name(text: str, names: PrivateTexts) -> bool:
    lowered = text.lower()
    return any(old.lower() in lowered for old, _ in names)


def _json_text(text: str, names: PrivateTexts, indent: int | None) -> str:
    if not _may_name(text, names):
        return text
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):  # damaged: unreadable, and still without private names
        return without_names(text, names)
    separators = None if indent else (",", ":")
    redacted = json.dumps(_in_errors(document, names), indent=indent, separators=separators)
    return redacted + "\n" if text.endswith("\n") else redacted


def _in_errors(value: Any, names: PrivateTexts, *, inside: bool = False) -> Any:
    if isinstance(value, str):
        return without_names(value, names) if inside else value
    if isinstance(value, dict):
        return {
            key: _in_errors(item, names, inside=inside or key in _ERROR_KEYS)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [_in_errors(item, names, inside=inside) for item in value]
    return value


def _machine_document(folder: Path) -> dict[str, dict[str, str]]:
    """Content of `private/machine.json`; empty where it is missing or damaged."""
    try:
        document = read_json(folder / MACHINE_FILE)
    except UsageError:
        return {"folders": {}, "names": {}}
    return {kind: _texts(document.get(kind)) for kind in ("folders", "names")}


def _texts(value: object) -> dict[str, str]:
    if not isinstance(value, Mapping):
        return {}
    pairs = {key: text for key, text in value.items() if isinstance(text, str)}
    pairs.pop("", None)
    return pairs


def _folders(folder: Path) -> dict[str, str]:
    pairs = {
        str(folder.resolve()): "RUN",
        str(Path.cwd()): ".",
        sys.prefix: "PYTHON",
        tempfile.gettempdir(): "TMP",
    }
    # Where the profiler lies, if not in the working folder: the runner is started by its path.
    pairs.setdefault(str(Path(__file__).resolve().parents[2]), "INSTALLED")
    # A container may run under a number that has neither a name nor a home.
    with contextlib.suppress(RuntimeError):
        pairs[str(Path.home())] = "HOME"
    with contextlib.suppress(KeyError, OSError):
        pairs[f"/{getpass.getuser()}/"] = "/USER/"
    pairs.pop("/", None)
    return pairs


def _names() -> dict[str, str]:
    """Names of this host and this user, if they identify anyone."""
    pairs: dict[str, str] = {}
    for new, ask in (("HOST", socket.gethostname), ("USER", getpass.getuser)):
        pairs |= dict.fromkeys(_answer(ask), new)
    pairs |= {host.partition(".")[0]: "HOST" for host in pairs if "." in host}
    return {
        old: new
        for old, new in pairs.items()
        if len(old) >= _FEWEST_LETTERS and old.lower() not in _ANYBODY
    }


def _answer(ask: Callable[[], str]) -> tuple[str, ...]:
    try:
        return (ask(),)
    except (KeyError, OSError):
        return ()


def _longest_first(pairs: Mapping[str, str]) -> list[tuple[str, str]]:
    return sorted(pairs.items(), key=lambda pair: -len(pair[0]))
