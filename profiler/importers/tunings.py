"""Configurations that autotuners tried, of logs and caches."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from profiler.importers.importer import Imported, notices_document
from profiler.model import SCHEMA_VERSION, TunedConfig
from profiler.notices import Notice


@dataclass(frozen=True)
class ImportedTunings(Imported):
    """Every configuration of one or several files, in their order."""

    shows: ClassVar[str] = "each configuration with its time"
    configurations: tuple[TunedConfig, ...]
    notices: tuple[Notice, ...] = ()

    def document(self) -> dict[str, Any]:
        """The configurations as JSON."""
        return {
            "schema_version": SCHEMA_VERSION,
            "configurations": [asdict(item) for item in self.configurations],
            "warnings": notices_document(self.notices),
        }
