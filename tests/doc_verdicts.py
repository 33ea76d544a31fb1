"""Numbers of docs/verdicts.md that recordings hold."""

import sys
from pathlib import Path

from doc_tables import RECORDINGS, findings_of
from recorded import report_of_recording

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks" / "verdicts"))

from measured import between_sessions


def slow_visits():
    """How many measured cells of the recordings have slow visits."""
    recordings = [findings_of(file.parent.name) for file in sorted(RECORDINGS.glob("*/run.json"))]
    slow = sum(len(findings.slow_visits) for findings in recordings)
    measured = sum(len(findings.correct_cells) for findings in recordings)
    return f"In the {len(recordings)} recordings {slow} of {measured} measured cells have some.\n"


def sessions():
    """The table of offsets between the timing blocks and the confirmation."""
    folders = [file.parent for file in sorted(RECORDINGS.glob("*/run.json"))]
    return f"{between_sessions([report_of_recording(folder) for folder in folders])}\n"


VERDICT_BLOCKS = {"slow-visits": slow_visits, "between-sessions": sessions}
