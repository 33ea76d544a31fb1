"""Source pages of ncu for tests: real captures, and pages made by hand."""

import gzip
from pathlib import Path

RECORDINGS = Path(__file__).parents[2] / "recordings" / "ncu-source-2025.3.1"
HEADER = ["Address", "Source", "Warp Stall Sampling (All Samples)", "Instructions Executed"]


def recorded(name: str) -> bytes:
    return gzip.decompress((RECORDINGS / f"{name}.csv.gz").read_bytes())


def line(*cells: object) -> str:
    """A line as ncu writes it: every cell quoted, nothing escaped."""
    return '"' + '","'.join(str(cell) for cell in cells) + '"\n'


def sass_table(kernel: str, rows: list[list[object]], header: list[str] | None = None) -> str:
    """One listing of a page `sass`."""
    title = line("Kernel Name", kernel).replace("\n", ",\n")
    return title + line(*(header or HEADER)) + "".join(line(*row) for row in rows)


def lines_table(kernel: str, file: str, rows: list[list[object]]) -> str:
    """One file of one launch on a page `cuda,sass`."""
    titles = line("File Path", file) + line("Function Name", kernel)
    return titles + line("Line No", "Source", *HEADER) + "".join(line(*row) for row in rows)
