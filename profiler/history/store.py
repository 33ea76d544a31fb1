"""The store of answers: one SQLite file beside the runs, to which rows are only ever added.

A run that is reported again with other numbers is added again; the newest of its rows counts. What
the file holds can be found again from run folders and recordings, so it is never the only copy.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from profiler.errors import EnvironmentUnusable
from profiler.history.answers import Answer, HistoryRun

STORE_FILE = "history.sqlite"
_PATIENCE_S = 10.0
"""Longest wait in seconds for another run that is writing."""
_VERSION = 1
_REBUILD = "Move it away; `profiler history --rebuild` makes a new one."
_UNWRITABLE = "Make it writable, or choose another folder with --reports."
_PRIMARY_CODE = 0xFF
"""Bits of SQLite's error code without its refinement."""
_REMEDIES = {
    **dict.fromkeys((sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR), "Make room."),
    **dict.fromkeys((sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN), _UNWRITABLE),
    **dict.fromkeys(
        (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED),
        "Another process writes it: run the command again.",
    ),
}
"""By SQLite's error code, where the store itself is sound; else it is made anew."""
_SCHEMA = """
CREATE TABLE IF NOT EXISTS run (
    id INTEGER PRIMARY KEY, experiment TEXT NOT NULL, created TEXT NOT NULL, machine TEXT NOT NULL,
    source TEXT NOT NULL, digest TEXT NOT NULL UNIQUE, record TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS cell (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL, variant TEXT NOT NULL, problem TEXT NOT NULL,
    UNIQUE (name, variant, problem));
CREATE TABLE IF NOT EXISTS metric (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE IF NOT EXISTS answer (
    run INTEGER NOT NULL REFERENCES run, metric INTEGER NOT NULL REFERENCES metric,
    cell INTEGER NOT NULL REFERENCES cell, value REAL NOT NULL, low REAL, high REAL,
    n INTEGER NOT NULL, ratio REAL, ratio_low REAL, ratio_high REAL, noise_floor REAL,
    verdict TEXT, PRIMARY KEY (run, metric, cell)) WITHOUT ROWID;
"""
_ANSWERS = """
SELECT cell.name, variant, problem, metric.name, value, low, high, n, ratio, ratio_low, ratio_high,
    noise_floor, verdict
FROM answer JOIN cell ON cell.id = cell JOIN metric ON metric.id = metric
WHERE run = ? AND (? IS NULL OR metric.name = ?) ORDER BY answer.metric, answer.cell
"""
_APPEND_ONLY = """
CREATE TRIGGER IF NOT EXISTS no_{verb}_{table} BEFORE {verb} ON {table}
BEGIN SELECT RAISE(ABORT, 'the history is append-only'); END;
"""


@dataclass(frozen=True)
class Store:
    """Answers of the runs in one folder."""

    path: Path

    @classmethod
    def beside(cls, out: Path) -> Store:
        """Store of a folder of runs."""
        return cls(out / STORE_FILE)

    def add(self, runs: Iterable[HistoryRun]) -> int:
        """Number of added runs; runs with known content are not added again.

        Raises EnvironmentUnusable where the file cannot be written, or is none of ours.
        """
        with self._transaction() as connection:
            return sum(_add(connection, run) for run in runs)

    def runs(self, experiment: str | None = None) -> tuple[HistoryRun, ...]:
        """Runs of an experiment, or all runs, without answers, the oldest first.

        Of a run that was added again the last.
        """
        return tuple(run for run, _ in self._runs(experiment))

    def answers(
        self, experiment: str | None = None, metric: str | None = None
    ) -> tuple[HistoryRun, ...]:
        """Runs with answers of an experiment and a metric, or with all, the oldest first."""
        runs = self._runs(experiment)
        if not runs:
            return ()
        with self._transaction() as connection:
            rows = [
                connection.execute(_ANSWERS, (number, metric, metric)).fetchall()
                for _, number in runs
            ]
        return tuple(
            replace(run, answers=tuple(Answer(*row) for row in of_run))
            for (run, _), of_run in zip(runs, rows, strict=True)
            if of_run
        )

    def _runs(self, experiment: str | None) -> list[tuple[HistoryRun, int]]:
        if not self.path.exists():
            return []
        with self._transaction() as connection:
            rows = connection.execute(
                "SELECT record, id FROM run WHERE ? IS NULL OR experiment = ? ORDER BY id",
                (experiment, experiment),
            ).fetchall()
        runs = [(HistoryRun(**json.loads(record)), number) for record, number in rows]
        newest = {
            (run.experiment, run.created, run.machine, run.card, run.commit): (run, number)
            for run, number in runs
        }
        # Texts of times are in no order: clocks are set back in autumn, others lie elsewhere.
        return sorted(newest.values(), key=lambda run: (run[0].when, run[1]))

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """A transaction on the store; a missing schema is made."""
        try:
            connection = sqlite3.connect(self.path, timeout=_PATIENCE_S, isolation_level=None)
        except sqlite3.Error as error:
            raise self._unusable_error(error) from error
        try:
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if version == 0:
                connection.executescript(_schema())
            elif version != _VERSION:
                raise EnvironmentUnusable(
                    f"{self.path}: its form is {version}, this version has {_VERSION}.",
                    remedy=_REBUILD,
                )
            connection.execute("BEGIN")
            yield connection
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            raise self._unusable_error(error) from error
        finally:
            connection.close()

    def _unusable_error(self, error: sqlite3.Error) -> EnvironmentUnusable:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT)
        return EnvironmentUnusable(
            f"{self.path}: {error}.",
            remedy=_REMEDIES.get(code & _PRIMARY_CODE, _REBUILD),
        )


def _schema() -> str:
    """Statements that make an empty store."""
    triggers = (
        _APPEND_ONLY.format(verb=verb, table=table)
        for verb in ("UPDATE", "DELETE")
        for table in ("run", "cell", "metric", "answer")
    )
    return f"BEGIN;{_SCHEMA}{''.join(triggers)}PRAGMA user_version = {_VERSION};COMMIT;"


def _add(connection: sqlite3.Connection, run: HistoryRun) -> bool:
    """Add a run with its answers; False where the store has the same content."""
    text = json.dumps([run.record | {"run": "", "source": ""}, run.answers])
    row = (run.experiment, run.created, run.machine, run.source)
    added = connection.execute(
        "INSERT OR IGNORE INTO run (experiment, created, machine, source, digest, record) "
        "VALUES (?, ?, ?, ?, ?, ?)",
        (*row, hashlib.sha256(text.encode()).hexdigest(), json.dumps(run.record)),
    )
    if not added.rowcount:
        return False
    number = added.lastrowid
    cells = {(answer.cell, answer.variant, answer.problem) for answer in run.answers}
    connection.executemany("INSERT OR IGNORE INTO cell VALUES (NULL, ?, ?, ?)", cells)
    metrics = {(answer.metric,) for answer in run.answers}
    connection.executemany("INSERT OR IGNORE INTO metric VALUES (NULL, ?)", metrics)
    cell_ids = {tuple(row): id_ for id_, *row in connection.execute("SELECT * FROM cell")}
    metric_ids = {name: id_ for id_, name in connection.execute("SELECT * FROM metric")}
    rows = (
        (number, metric_ids[answer.metric], cell_ids[answer[:3]], *answer[4:])
        for answer in run.answers
    )
    connection.executemany("INSERT INTO answer VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
    return True
