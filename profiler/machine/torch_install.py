"""What torch says of itself, in a process of its own, so that this one stays without it.

Importing torch takes seconds, so an answer is kept until what it depends on changes.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path

_TIMEOUT_S = 120.0
_PROBE = "import torch; print(torch.__version__, torch.version.cuda, torch.cuda.is_available())"
_VARIABLES = ("CUDA_VISIBLE_DEVICES", "LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONPATH")
"""Of the environment, what decides which libraries torch finds and which GPUs it sees."""


@dataclass(frozen=True)
class TorchInstall:
    """The torch of a Python; `error` where it cannot be imported."""

    version: str = ""
    cuda: str | None = None
    """CUDA version that it was built for."""
    sees_gpu: bool = False
    error: str = ""


def ask_torch(
    python: str, environ: Mapping[str, str], gpu: Iterable[str | None], kept_file: Path
) -> TorchInstall:
    """Import torch, or read what it said when last imported on a machine that has not changed.

    `gpu` tells the GPU and its driver from others, and is empty without one. Nothing bad is kept:
    what failed, or saw no GPU where there is one, is tried again.
    """
    gpu = tuple(gpu)
    state = _state(python, environ, gpu)
    earlier = _read(kept_file, state)
    if earlier is not None:
        return earlier
    install = _imported(python)
    if not install.error and (install.sees_gpu or not gpu):
        _keep(kept_file, state, install)
    return install


def _imported(python: str) -> TorchInstall:
    try:
        done = subprocess.run(
            [python, "-c", _PROBE],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return TorchInstall(error=f"cannot be checked: {error}")
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        return TorchInstall(error=last[0])
    version, cuda, available = done.stdout.split()[-3:]
    return TorchInstall(version, None if cuda == "None" else cuda, sees_gpu=available == "True")


def _state(python: str, environ: Mapping[str, str], gpu: tuple[str | None, ...]) -> str:
    """Hash of all that the answer depends on; another install of torch has other times."""
    torch = find_spec("torch")
    files = [python] + ([torch.origin] if torch is not None and torch.origin else [])
    folders = [str(Path(file).parent / "version.py") for file in files[1:]]
    times = [_changed_ns(Path(file)) for file in (*files, *folders)]
    variables = [environ.get(name) for name in _VARIABLES]
    text = json.dumps([files, times, variables, gpu])
    return hashlib.sha256(text.encode()).hexdigest()


def _changed_ns(file: Path) -> int | None:
    with suppress(OSError):
        return file.stat().st_mtime_ns
    return None


def _read(file: Path, state: str) -> TorchInstall | None:
    with suppress(OSError, ValueError, TypeError, KeyError):
        document = json.loads(file.read_text(encoding="utf-8"))
        if document["state"] == state:
            return TorchInstall(**document["torch"])
    return None


def _keep(file: Path, state: str, install: TorchInstall) -> None:
    """Write down an answer; a folder that cannot be written to only costs the next import."""
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        temporary = file.with_suffix(".new")
        temporary.write_text(json.dumps({"state": state, "torch": asdict(install)}), "utf-8")
        temporary.replace(file)
