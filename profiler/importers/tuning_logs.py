"""`profiler import` of what inductor's autotuner wrote: logs, and winners in its cache."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from profiler.model import SCHEMA_VERSION, TunedConfig
from profiler.outside_text import safe_values
from profiler.parse.bounded_files import read_content
from profiler.parse.inductor import is_inductor_log, parse_inductor_log


def read_tuning_logs(
    files: Sequence[Path], limit: int | None = None
) -> tuple[TunedConfig, ...] | None:
    """Every configuration in these files, in their order; None where one of them holds none.

    Raises ParseError where one holds more than `limit` bytes (bounded_files.MAX_UNPACKED_BYTES).
    """
    texts = [_text(file, limit) for file in files]
    if not all(is_inductor_log(text) for text in texts):
        return None
    return tuple(
        safe_values(configuration)
        for file, text in zip(files, texts, strict=True)
        for configuration in parse_inductor_log(text, file.name)
    )


def _text(file: Path, limit: int | None) -> str:
    """Text of a file, compressed by gzip or not; empty where it cannot be read."""
    try:
        return read_content(file, limit).decode("utf-8-sig", errors="replace")
    except OSError:
        return ""


def tuning_document(tuned: Sequence[TunedConfig]) -> dict[str, Any]:
    """The configurations as JSON; a value that is absent is null, never 0."""
    return {
        "schema_version": SCHEMA_VERSION,
        "configurations": [
            {
                "operation": item.operation,
                "choice": item.choice,
                "config": dict(item.config),
                "time_ns": item.time_ns,
                "registers": item.registers,
                "spills": item.spills,
                "shared_bytes": item.shared_bytes,
                "best": item.best,
            }
            for item in tuned
        ],
    }
