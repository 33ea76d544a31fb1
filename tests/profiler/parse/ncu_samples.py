"""Pieces of ncu output for the tests of the parser: real captures, and tables made by hand."""

import csv
import gzip
import io
from pathlib import Path

import pandas as pd

RECORDINGS = Path(__file__).parents[2] / "recordings" / "ncu-2025.3.1"

PUSH_POP = "thread Domain:Push/Pop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg"
START_END = "Id:Domain:Start/Stop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg"
HEAD = ["ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream"]
DETAIL = ["Section Name", "Metric Name", "Metric Unit", "Metric Value"]
RULE = ["Rule Name", "Rule Type", "Rule Description"]
LAUNCH = ["0", "17", "app", "127.0.0.1", "k(float *)", "1", "7"]


def capture(name):
    path = next(RECORDINGS.glob(name + ".csv*"))
    data = path.read_bytes()
    return gzip.decompress(data) if path.suffix == ".gz" else data


def all_captures():
    return sorted(p.name.split(".")[0] for p in RECORDINGS.glob("ncu_*"))


def quoted(*rows, newline="\n"):
    """CSV as ncu writes it: every field quoted."""
    stream = io.StringIO()
    csv.writer(stream, quoting=csv.QUOTE_ALL, lineterminator=newline).writerows(rows)
    return stream.getvalue()


def raw_page(metrics, newline="\n"):
    """Raw page with one metric per entry: name -> (unit, one cell per launch)."""
    count = max((len(cells) for _, cells in metrics.values()), default=0)
    units = [""] * len(HEAD) + [unit for unit, _ in metrics.values()]
    rows = [
        [str(i), *LAUNCH[1:], *(cells[i] for _, cells in metrics.values())] for i in range(count)
    ]
    return quoted([*HEAD, *metrics], units, *rows, newline=newline)


def details_page(*rows, head=HEAD):
    """Details page of one launch from (section, metric, unit, value) rows."""
    return quoted([*head, *DETAIL], *([*LAUNCH, *row] for row in rows))


def known_values(frame):
    """Rows without what is missing, so that frames of different columns can be compared."""
    records = frame.astype(object).to_dict("records")
    return [
        {key: value for key, value in row.items() if isinstance(value, tuple) or not pd.isna(value)}
        for row in records
    ]
