"""A second run out of a first: the same files, with some cells slower by a known factor."""

import csv
import gzip
import io
import json
import random
import re
import shutil

from profiler.run_folder.archive import open_run

TIME = "gpu__time_duration.sum"
CYCLES = ("gpc__cycles_elapsed.max", "sm__cycles_elapsed.max")
"""Of runs of today, and of recordings before they were counted by GPC."""
LATER = "2026-12-01T08:00:00+00:00"


def scaled_copy(
    run, target, factors=None, *, columns=(TIME, *CYCLES), created=LATER, environment=None, seed=1
):
    """Copy a run folder or recording; gives the target.

    `factors`: by the beginning of a cell's id, what its durations and cycles are multiplied by. All
    values scatter by a few tenths of a percent on top, so that no two runs are the same.
    """
    shutil.copytree(open_run(run).path, target)
    scatter = random.Random(seed)  # noqa: S311 - for noise, not for secrets
    for file in target.glob("raw/*/ncu.csv.gz"):
        file.write_bytes(gzip.compress(_scaled(file, factors or {}, columns, scatter).encode()))
    change_json(target / "run.json", created=created, environment=environment or {})
    return target


def change_json(path, **changes):
    """Lay changes over a JSON document; mappings are merged."""
    document = json.loads(path.read_text())
    for name, value in changes.items():
        merged = isinstance(value, dict) and isinstance(document.get(name), dict)
        document[name] = {**document[name], **value} if merged else value
    path.write_text(json.dumps(document))


def _scaled(file, factors, columns, scatter):
    text = gzip.decompress(file.read_bytes()).decode()
    start = text.index('"ID"')
    head, units, *rows = csv.reader(io.StringIO(text[start:]))
    places = [head.index(name) for name in columns if name in head]
    for row in rows:
        found = re.search(r"cell=([^;]+);", " ".join(row))
        factor = 1 + scatter.uniform(-0.002, 0.002)
        for name, one in factors.items():
            factor *= one if found and found[1].startswith(name) else 1
        for place in places:
            row[place] = repr(float(row[place].replace(",", "")) * factor)
    out = io.StringIO()
    csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows([head, units, *rows])
    return text[:start] + out.getvalue()
