"""Source pages of ncu for tests: real captures, and pages made by hand."""

import gzip
from pathlib import Path

RECORDINGS = Path(__file__).parents[2] / "recordings" / "ncu-source-2025.3.1"
HEADER = ["Address", "Source", "Warp Stall Sampling (All Samples)", "Instructions Executed"]


def recorded(name):
    return gzip.decompress((RECORDINGS / f"{name}.csv.gz").read_bytes())


def line(*cells):
    """A line as ncu writes it: every cell quoted, nothing escaped."""
    return '"' + '","'.join(str(cell) for cell in cells) + '"\n'


def sass_table(kernel, rows, header=None):
    """One listing of a page `sass`."""
    title = line("Kernel Name", kernel).replace("\n", ",\n")
    return title + line(*(header or HEADER)) + "".join(line(*row) for row in rows)


def lines_table(kernel, file, rows):
    """One file of one launch on a page `cuda,sass`."""
    titles = line("File Path", file) + line("Function Name", kernel)
    return titles + line("Line No", "Source", *HEADER) + "".join(line(*row) for row in rows)
