"""Edits of files that keep what they say, and edits that change it.

Whoever reads a file that says the same otherwise finds the same numbers; whoever reads one that
says something else finds other numbers, or a warning.
"""

import csv
import gzip
import io
import json
import math
import random
import re
import sqlite3
from contextlib import closing
from decimal import Decimal

import yaml
from readers import (
    DETAILS,
    LOG,
    RAW,
    SPEC,
    T1,
    T4,
    TEXT,
    imported,
    make_export,
    make_trace,
    planned,
    results_of,
)

from profiler.errors import ProfilerError
from profiler.notices import text
from profiler.search.t1 import read_t1

TIMES = ("ns", "us", "ms", "s")
BYTES = ("byte", "Kbyte", "Mbyte", "Gbyte")
_NUMBER = re.compile(r"-?(\d{1,3}(,\d{3})+|\d+)(\.\d+)?")
PREFIXES = ("[rank0]:", "2026-01-02T03:04:05,100 [WARN ] x - ", "worker-3 | ", "\x1b[32mx\x1b[0m ")

# ---- pages of ncu --------------------------------------------------------------------------------


def table_of(content):
    """Rows of a CSV, all as long as its header."""
    rows = list(csv.reader(io.StringIO(content.decode())))
    return [row + [""] * (len(rows[0]) - len(row)) for row in rows]


def written(rows, quoting=csv.QUOTE_ALL, end="\n"):
    stream = io.StringIO()
    csv.writer(stream, quoting=quoting, lineterminator=end).writerows(rows)
    return stream.getvalue().encode()


def columns_moved(content, source):
    rows = table_of(content)
    # By ID and process, with which ncu begins, a table is known.
    order = [0, 1, *source.sample(range(2, len(rows[0])), len(rows[0]) - 2)]
    return written([[row[place] for place in order] for row in rows])


def plainly_quoted(content, _):
    return written(table_of(content), csv.QUOTE_MINIMAL)


def of_windows(content, _):
    return content.replace(b"\n", b"\r\n")


def with_mark(content, _):
    return b"\xef\xbb\xbf" + content


def in_utf_16(content, source):
    return content.decode().encode(source.choice(("utf-16", "utf-16-le", "utf-16-be")))


def packed(content, _):
    return gzip.compress(content)


def with_words_between(content, source):
    """Words of ncu and of its program stand before the table."""
    words = ("==PROF== Connected to process 7 (/x/a)", "loss 0.5", "", "==WARNING== Note: x")
    return "\n".join([*source.sample(words, 3), ""]).encode() + content


def in_locale(thousands, decimal):
    """Write the numbers of a table as a locale does; integers of identity stay."""

    def edited(content, _):
        return written([[localised(cell) for cell in row] for row in table_of(content)])

    def localised(cell):
        if not _NUMBER.fullmatch(cell) or ("," not in cell and "." not in cell):
            return cell
        whole, _, part = cell.partition(".")
        return whole.replace(",", thousands) + (decimal + part if part else "")

    return edited


def without_separators(content, _):
    rows = table_of(content)
    return written([[c.replace(",", "") if _NUMBER.fullmatch(c) else c for c in r] for r in rows])


def in_other_units(content, source):
    """Times and bytes of a raw page in another of their units; base units are the same."""
    rows = table_of(content)
    for place, unit in enumerate(rows[1]):
        family = next((units for units in (TIMES, BYTES) if unit in units), None)
        if family is not None:
            rows[1][place] = source.choice(family)
            factor = Decimal(1000) ** (family.index(unit) - family.index(rows[1][place]))
            for row in rows[2:]:
                if _NUMBER.fullmatch(row[place]):
                    row[place] = f"{Decimal(row[place].replace(',', '')) * factor:f}"
    return written(rows)


def details_in_other_units(content, source):
    """The same of a details page, which has the unit in each row."""
    rows = table_of(content)
    unit_at, value_at = rows[0].index("Metric Unit"), rows[0].index("Metric Value")
    for row in rows[1:]:
        family = next((units for units in (TIMES, BYTES) if row[unit_at] in units), None)
        if family is not None and _NUMBER.fullmatch(row[value_at]):
            old = family.index(row[unit_at])
            row[unit_at] = source.choice(family)
            factor = Decimal(1000) ** (old - family.index(row[unit_at]))
            row[value_at] = f"{Decimal(row[value_at].replace(',', '')) * factor:f}"
    return written(rows)


def rows_moved(content, source, first=2):
    rows = table_of(content)
    return written([*rows[:first], *source.sample(rows[first:], len(rows) - first)])


def details_moved(content, source):
    return rows_moved(content, source, first=1)


# ---- JSON, logs and SQLite -----------------------------------------------------------------------


def shuffled(value, source):
    """JSON whose keys stand in another order."""
    if isinstance(value, dict):
        return {key: shuffled(value[key], source) for key in source.sample(list(value), len(value))}
    return [shuffled(item, source) for item in value] if isinstance(value, list) else value


def keys_moved(content, source):
    return json.dumps(shuffled(json.loads(content), source)).encode()


def indented(content, source):
    return json.dumps(json.loads(content), indent=source.choice((1, 4, "\t"))).encode()


def events_moved(content, source):
    trace = json.loads(content)
    source.shuffle(trace["traceEvents"])
    return json.dumps(trace).encode()


def later(content, _):
    """Everything happened a second later."""
    trace = json.loads(content)
    for event in trace["traceEvents"]:
        event["ts"] = event["ts"] + 1_000_000 if "ts" in event else 0
    return json.dumps(trace).encode()


def with_unknown_keys(content, source):
    trace = json.loads(content)
    source.choice(trace["traceEvents"])["a new key"] = {"a": [1, 2]}
    return json.dumps(trace | {"a new table": []}).encode()


def with_prefixes(content, source):
    prefix = source.choice(PREFIXES)
    return "".join(f"{prefix}{line}\n" for line in content.decode().splitlines()).encode()


def with_other_lines(content, source):
    """Lines of other programs stand between those of a log."""
    lines = content.decode().splitlines(keepends=True)
    words = ("", "epoch 3: 0.25 s\n")
    return "".join(line + source.choice(words) for line in lines).encode()


def database_edited(*statements):
    """Run statements on a database."""

    def edited(content, _):
        with closing(sqlite3.connect(":memory:")) as database:
            database.deserialize(content)
            database.executescript(";".join(statements))
            return database.serialize()

    return edited


KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"
rows_reversed = database_edited(
    f"CREATE TABLE other AS SELECT * FROM {KERNELS} ORDER BY rowid DESC",  # noqa: S608
    f"DROP TABLE {KERNELS}",
    f"ALTER TABLE other RENAME TO {KERNELS}",
)
database_rebuilt = database_edited("PRAGMA page_size = 8192", "VACUUM")
database_larger = database_edited(
    f"ALTER TABLE {KERNELS} ADD COLUMN newer INTEGER", "CREATE TABLE NEWER (a INTEGER)"
)
names_renumbered = database_edited(
    "UPDATE StringIds SET id = id + 1000",
    f"UPDATE {KERNELS} SET shortName = shortName + 1000",  # noqa: S608
    f"UPDATE {KERNELS} SET demangledName = demangledName + 1000",  # noqa: S608
)


def results_in_nanoseconds(content, _):
    document = json.loads(content)
    document["metadata"]["timeunit"] = "nanoseconds"
    for result in document["results"]:
        times = result["times"]
        times["runtimes"] = [time * 1_000_000 for time in times["runtimes"]]
        times["compilation"] *= 1_000_000
        for measurement in result["measurements"]:
            measurement["unit"], measurement["value"] = "ns", measurement["value"] * 1_000_000
    return json.dumps(document).encode()


def values_as_lists(content, _):
    """A T1 file may have values as text or as a list."""
    document = json.loads(content)
    parameters = document["ConfigurationSpace"]["TuningParameters"]
    parameters[0]["Values"], parameters[1]["Values"] = [16, 32, 64, 128], "[1, 2, 4, 8]"
    parameters[2]["Values"] = "['row', 'column']"
    return json.dumps(document).encode()


def yaml_keys_moved(content, source):
    return yaml.safe_dump(shuffled(yaml.safe_load(content), source), sort_keys=False).encode()


def yaml_in_flow(content, _):
    document = yaml.safe_load(content)
    return yaml.safe_dump(document, default_flow_style=True, sort_keys=False).encode()


def yaml_as_json(content, _):
    return json.dumps(yaml.safe_load(content)).encode()


def yaml_commented(content, _):
    return content.replace(b"\n", b"  \n").replace(b"variants:", b"# a word\n\nvariants:")


# ---- what is read --------------------------------------------------------------------------------


def launches(path):
    """Facts of an import of ncu: rows without their order."""
    document = imported(path)
    assert not document["warnings"], document["warnings"]
    rows = [
        {"id": launch["id"], "kernel": launch["kernel"], "nvtx": launch["nvtx"]} | launch["metrics"]
        for launch in document["launches"]
    ]
    return sorted(rows, key=lambda row: json.dumps([row["id"], row["kernel"]]))


def timelines(path):
    (timeline,) = imported(path)["timelines"]
    return {key: value for key, value in timeline.items() if key not in ("file", "file_schema")}


def configurations(path):
    return imported(path)["configurations"]


def space(path):
    problem = read_t1(path)
    return sorted(map(repr, map(problem.space.params, range(len(problem.space)))))


def plan(path):
    made = planned(path)
    cells = sorted(
        repr([sorted(part.params.items()) for part in (cell.variant, cell.problem)])
        for cell in made.cells
    )
    return [cells, [(s.name, s.metrics, len(s.visits)) for s in made.sessions]]


LINES = (of_windows, with_mark, in_utf_16, packed)
OF_TABLES = (columns_moved, plainly_quoted, without_separators, with_words_between, *LINES)
LOCALES = tuple(
    in_locale(*style)
    for style in ((".", ","), (" ", ","), ("\u202f", ","), ("\u2019", "."), ("", ","))
)
OF_JSON = (keys_moved, indented, packed)
SAME = {
    "raw page of ncu": (
        ("a.csv", RAW, launches),
        (*OF_TABLES, *LOCALES, in_other_units, rows_moved),
    ),
    "details page of ncu": (
        ("a.csv", DETAILS, launches),
        (*OF_TABLES, *LOCALES, details_in_other_units, details_moved),
    ),
    "text of ncu": (("a.txt", TEXT, launches), (of_windows, with_mark, packed)),
    "trace of torch.profiler": (
        ("a.json", make_trace, timelines),
        (*OF_JSON, events_moved, later, with_unknown_keys),
    ),
    "export of nsys": (
        ("a.sqlite", make_export, timelines),
        (rows_reversed, database_rebuilt, database_larger, names_renumbered, packed),
    ),
    "log of inductor": (
        ("a.log", LOG, configurations),
        (with_prefixes, with_other_lines, of_windows, with_mark, packed),
    ),
    "T1": (("a.json", T1, space), (*OF_JSON, values_as_lists)),
    "T4": (("a.json", T4, results_of), (*OF_JSON, results_in_nanoseconds)),
    "experiment file": (
        ("spec.yaml", SPEC.encode(), plan),
        (yaml_keys_moved, yaml_in_flow, yaml_as_json, yaml_commented, of_windows),
    ),
}
"""By what is read: a file, and what it says; edits after which it says the same."""


def content_of(made, folder):
    """Bytes of a file of SAME, which are given or made."""
    return made if isinstance(made, bytes) else made(folder).read_bytes()


def said_otherwise(name, folder, seed):
    """Edit a file so that it says the same; gives words on each edit after which it does not."""
    (file, made, facts), edits = SAME[name]
    (folder / "workload.py").write_text("import torch\n")
    content, path = content_of(made, folder), folder / file
    path.write_bytes(content)
    whole = facts(path)
    for number, edit in enumerate(edits):
        path.write_bytes(edit(content, random.Random(seed)))  # noqa: S311
        words = f"{getattr(edit, '__name__', edit)} ({number})"
        try:
            found = facts(path)
        except (ProfilerError, AssertionError) as error:
            yield f"{words}: {error}"
            continue
        difference = first_difference(whole, found)
        yield f"{words}: {difference}" if difference else ""


def first_difference(one, other, where=""):
    """Where two facts differ, in words; numbers may by a rounding."""
    if isinstance(one, tuple):
        return first_difference(list(one), list(other), where)
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        pairs = [(one[key], other[key], f"{where}.{key}") for key in one]
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        pairs = [(a, b, f"{where}[{n}]") for n, (a, b) in enumerate(zip(one, other, strict=True))]
    elif isinstance(one, float) and isinstance(other, int | float):
        return "" if math.isclose(one, other, rel_tol=1e-9) else f"{where}: {one} and {other}"
    else:
        return "" if one == other else f"{where}: {str(one)[:80]} and {str(other)[:80]}"
    return next(filter(None, (first_difference(*pair) for pair in pairs)), "")


# ---- edits that change what a file says ----------------------------------------------------------


def flips(content, source, number):
    """So many single bits of a file flipped; gives the place and what becomes of the file."""
    for _ in range(number):
        place = source.randrange(len(content))
        damaged = bytearray(content)
        damaged[place] ^= 1 << source.randrange(8)
        yield place, bytes(damaged)


def spread_of(one, other):
    """Rows and fields of a table of facts in which others stand, as two sets."""
    rows, fields = set(), set()
    for number, (before, after) in enumerate(zip(one, other, strict=True)):
        for field in before.keys() | after.keys():
            if first_difference(before.get(field), after.get(field)):
                rows.add(number)
                fields.add(field)
    return rows, fields


TABLES = {"a.csv": RAW, "details.csv": DETAILS, "a.txt": TEXT}


def silent_flips(name, folder, number, seed):
    """Single bits of a file after which more than one row and one column is another, unsaid."""
    content, path = TABLES[name], folder / name
    path.write_bytes(content)
    whole = imported(path)
    for place, damaged in flips(content, random.Random(seed), number):  # noqa: S311
        path.write_bytes(damaged)
        try:
            found = imported(path)
        except ProfilerError:
            continue
        if found["warnings"] or len(found["launches"]) != len(whole["launches"]):
            continue
        rows, fields = spread_of(*([flat(row) for row in d["launches"]] for d in (whole, found)))
        # The range of a launch is part of what a change of its name changes.
        if len(rows) > 1 and len(fields - {"nvtx", "range"}) > 2:
            yield f"byte {place}: rows {sorted(rows)}, {sorted(fields)[:6]}"


def flat(launch):
    return {key: value for key, value in launch.items() if key != "metrics"} | launch["metrics"]


def edits_of_lines(content):
    """A text with one line less, and with one line twice, for each of its lines."""
    lines = content.splitlines(keepends=True)
    for place in range(len(lines)):
        yield f"without line {place + 1}", b"".join(lines[:place] + lines[place + 1 :])
        yield f"line {place + 1} twice", b"".join(lines[: place + 1] + lines[place:])
        yield f"two lines from {place + 1} on lost", b"".join(lines[:place] + lines[place + 2 :])


def silent_in_run(place, path, number, seed):
    """Edits of a file of a run that change samples without a word, in words.

    Of each line, one less and one more: no sample is another. Of single bits: one sample at most.
    """
    packed = path.read_bytes()
    content = gzip.decompress(packed) if path.suffix == ".gz" else packed
    whole, said = samples_of(place)
    edits = [(words, damaged, 0) for words, damaged in edits_of_lines(content)]
    source = random.Random(seed)  # noqa: S311
    edits += [(f"byte {at}", damaged, 1) for at, damaged in flips(content, source, number)]
    for words, damaged, most in edits:
        path.write_bytes(gzip.compress(damaged) if path.suffix == ".gz" else damaged)
        found, now_said = samples_of(place)
        changed = [key for key in whole if repr(whole[key]) != repr(found.get(key))]
        if now_said == said and (len(changed) > most or len(found) != len(whole)):
            yield f"{words}: {changed}"
    path.write_bytes(packed)


def samples_of(place):
    """Values of each sample of the metrics that a run is about, and all that is said."""
    results = place.results()
    metrics = [name for name in place.plan.sessions[0].metrics if name in results.samples]
    rows = results.samples.to_dict("records")
    keys = ("session", "cell", "block", "arm", "repeat")
    samples = {tuple(row[key] for key in keys): [row[m] for m in metrics] for row in rows}
    return samples, sorted(map(text, results.notices))
