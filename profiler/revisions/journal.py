"""Journal of a bisection: what each question was answered, so that it goes on after any end.

A bisection asks the same questions in the same order each time; those that were answered are not
asked again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any


class Journal:
    """Answers by question, in a file of JSON lines that only grows."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._answers: dict[str, Any] = {}
        for line in path.read_text("utf-8").splitlines() if path.exists() else ():
            try:
                record = json.loads(line)
                self._answers[record["question"]] = record["answer"]
            except (ValueError, KeyError, TypeError):
                continue  # a line that was being written when the process was killed

    def __contains__(self, question: Sequence[Any]) -> bool:
        return _text(question) in self._answers

    def answer(self, question: Sequence[Any], ask: Callable[[], Any]) -> Any:
        """JSON-ready answer to a question: the one that is known, else the one of `ask`."""
        text = _text(question)
        if text not in self._answers:
            self._answers[text] = ask()
            self._append({"question": text, "answer": self._answers[text]})
        return self._answers[text]

    def _append(self, record: dict[str, Any]) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            # A half line of a process that was killed ends here.
            file.write(("" if self._ends_line() else "\n") + json.dumps(record) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def _ends_line(self) -> bool:
        content = self.path.read_bytes()
        return not content or content.endswith(b"\n")


def _text(question: Sequence[Any]) -> str:
    return " ".join(map(str, question))
