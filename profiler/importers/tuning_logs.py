"""`profiler import` of what inductor's autotuner wrote: logs, and winners in its cache."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from profiler.model import SCHEMA_VERSION, TunedConfig
from profiler.outside_text import safe_values
from profiler.parse.byte_lines import unpacked
from profiler.parse.inductor import is_inductor_log, parse_inductor_log


def read_tuning_logs(files: Sequence[Path]) -> tuple[TunedConfig, ...] | None:
    """Every configuration in these files, in their order; None where one of them holds none."""
    texts = [_text(file) for file in files]
    if not all(is_inductor_log(text) for text in texts):
        return None
    return tuple(
        safe_values(configuration)
        for file, text in zip(files, texts, strict=True)
        for configuration in parse_inductor_log(text, file.name)
    )


def _text(file: Path) -> str:
    """Text of a file, compressed by gzip or not; empty where it cannot be read."""
    try:
        return unpacked(file.read_bytes()).decode("utf-8", errors="replace")
    except (OSError, EOFError, zlib.error):
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
