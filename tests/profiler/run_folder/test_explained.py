"""What is read of an explain session: counters, rules and instructions of each launch."""

import csv
import gzip
import io
import json
import math
import shutil
from functools import partial
from pathlib import Path

import pytest

from profiler.analyse.why.inside import samples_of_page
from profiler.analyse.why.kernel_profiles import EXECUTED
from profiler.commands.report import read_run
from profiler.metrics.explain import SECTIONS
from profiler.model import Outcome, SessionKind
from profiler.notices import NoticeKind
from profiler.parse.ncu_csv import read_ncu_csv
from profiler.run_folder.archive import open_run
from profiler.run_folder.folder import EXPLAIN_FILES, RunFolder
from profiler.run_folder.load.attempts import AttemptReader
from profiler.run_folder.load.details import cell_profiles, finished_cells
from profiler.run_folder.load.notices import notices_of
from profiler.run_folder.load.outcomes import failures, gather
from profiler.run_folder.recording import write_recording
from profiler.run_folder.redact import private_texts, with_folders

RECORDING = open_run(Path(__file__).parents[2] / "recordings/explained.zip").path
ATTEMPT = "raw/ncu-explain.001"
TORCH = "torch..columns=16384.rows=8192.dtype=float32"
BEST = "vector-b256-r1-v4..columns=16384.rows=8192.dtype=float32"
RULES, SASS, SOURCE, SERIES = (f"{name}.gz" for name in EXPLAIN_FILES)


@pytest.fixture(scope="module")
def loaded():
    return explained(RECORDING)


@pytest.fixture(scope="module")
def results():
    return results_of(RECORDING, attempts_of(RECORDING))


@pytest.fixture
def copy(tmp_path):
    """A copy of the recording that may be damaged."""
    return Path(shutil.copytree(RECORDING, tmp_path / "run"))


def attempts_of(folder):
    """Every attempt of the copy, without the statistics of a report."""
    run = RunFolder(folder)
    keys = run.record().keys
    return [AttemptReader().load(attempt, keys, "9.0") for attempt in run.attempts()]


def explained(folder):
    """The attempt of the explain session alone."""
    run = RunFolder(folder)
    return AttemptReader().load(run.attempt(folder / ATTEMPT), run.record().keys, "9.0")


def profiles_of(loaded):
    return loaded.details.profiles


def results_of(folder, attempts):
    run = RunFolder(folder)
    return gather(run.plan(), run.builds(), attempts, run.record().environment)


def test_a_launch_has_its_counters_rules_and_instructions(loaded):
    assert set(profiles_of(loaded)) == {TORCH, BEST}
    (kernel,) = profiles_of(loaded)[BEST]
    assert kernel.name.startswith("void softmax::softmax_vector<float, (int)16>")
    assert len(kernel.values) > 500
    assert all(math.isfinite(value) for value in kernel.values.values())
    assert set(kernel.rules["rule"]) >= {"CPIStall", "IssueSlotUtilization"}
    listed = kernel.instructions["executed"].sum()
    assert listed == pytest.approx(kernel.value(EXECUTED), rel=1e-3)


def test_lines_are_those_of_kernels_that_have_them(loaded):
    (torch,), (best,) = (profiles_of(loaded)[cell] for cell in (TORCH, BEST))
    assert not torch.listing.has_lines
    assert "./kernels/softmax/src/vector.cu" in set(best.instructions["file"])


def test_explain_sessions_give_profiles_and_no_samples(loaded):
    assert loaded.samples.empty
    assert {visit.cell for visit in loaded.visits} == {TORCH, BEST}
    report = read_run(RunFolder(RECORDING))
    assert set(report.details.profiles) == {TORCH, BEST}
    assert SessionKind.EXPLAIN.value not in set(report.measured.samples["kind"])


def test_an_explain_session_that_ended_early_has_no_samples_to_keep(copy):
    (copy / ATTEMPT / "result.json").unlink()
    (notice,) = results_of(copy, attempts_of(copy)).notices
    assert notice.kind is NoticeKind.EXPLAINING_DIED
    assert notice.values["kept"] == 2


def test_cells_of_another_key_are_left_out():
    run = RunFolder(RECORDING)
    keys = {**run.record().keys, BEST: "edited since"}
    other = AttemptReader().load(run.attempt(RECORDING / ATTEMPT), keys, "9.0")
    assert set(other.details.profiles) == {TORCH}


def test_a_cell_whose_visit_was_not_finished_has_no_profile():
    table = read_ncu_csv(RECORDING / ATTEMPT / "ncu.csv.gz")
    profiles, notices = cell_profiles(
        RECORDING / ATTEMPT, table, partial(finished_cells, finished={TORCH})
    )
    assert (set(profiles), notices) == ({TORCH}, ())
    assert cell_profiles(RECORDING / ATTEMPT, None, partial(finished_cells, finished={TORCH})) == (
        {},
        (),
    )


def test_a_listing_of_another_launch_is_not_used(copy):
    """Instructions are joined by order; a launch that executed others has none."""
    page = copy / ATTEMPT / SASS
    lines = gzip.decompress(page.read_bytes()).decode().splitlines(keepends=True)
    heads = [at for at, line in enumerate(lines) if line.startswith('"Kernel Name"')]
    turned = [*lines[heads[2] :], *lines[: heads[2]]]
    page.write_bytes(gzip.compress("".join(turned).encode()))
    (copy / ATTEMPT / SOURCE).unlink()
    profiles = profiles_of(explained(copy))
    assert {profiles[cell][0].listing for cell in (TORCH, BEST)} == {None}


@pytest.mark.parametrize(
    ("instruction", "used"), [("SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [R4]", True), ("NOP", False)]
)
def test_a_launch_that_polls_barriers_may_execute_more_when_it_is_listed(
    copy, loaded, instruction, used
):
    (kernel,) = profiles_of(loaded)[BEST]
    first = kernel.instructions.iloc[0]
    more = int(first["executed"] + 0.2 * kernel.value(EXECUTED))
    page = copy / ATTEMPT / SASS
    rows = list(csv.reader(gzip.decompress(page.read_bytes()).decode().splitlines()))
    executed = next(row for row in rows if "Address" in row).index("Instructions Executed")
    for row in rows:
        if row and row[0] == hex(first["address"]):
            row[1], row[executed] = instruction, str(more)
    with io.StringIO() as text:
        csv.writer(text, quoting=csv.QUOTE_ALL).writerows(rows)
        page.write_bytes(gzip.compress(text.getvalue().encode()))
    (copy / ATTEMPT / SOURCE).unlink()
    (kernel,) = profiles_of(explained(copy))[BEST]
    assert (kernel.listing is not None) is used


@pytest.mark.parametrize("name", [RULES, SASS, SOURCE])
def test_a_page_that_is_absent_costs_that_page(copy, loaded, name):
    (copy / ATTEMPT / name).unlink()
    rest = explained(copy)
    (kernel,) = profiles_of(rest)[BEST]
    assert kernel.rules.empty == (name == RULES)
    assert (kernel.listing is None) == (name == SASS)
    assert [*notices_of(rest)] == [*notices_of(loaded)]


@pytest.mark.parametrize("name", [RULES, SASS, SOURCE])
@pytest.mark.parametrize(
    "content", [b"no gzip", gzip.compress(b"no page of ncu\n")], ids=["packed", "text"]
)
def test_a_damaged_page_costs_that_page_and_is_named(copy, name, content):
    (copy / ATTEMPT / name).write_bytes(content)
    loaded = explained(copy)
    assert set(profiles_of(loaded)) == {TORCH, BEST}
    (notice,) = [n for n in notices_of(loaded) if n.kind is NoticeKind.ATTEMPT_FILE_DAMAGED]
    assert notice.values["file"] == name


def test_samples_inside_launches_are_read_by_the_id_of_the_launch_or_named_as_damaged(copy):
    page = Path(__file__).parents[2] / "recordings/ncu-2025.3.1/ncu_raw_instances.csv.gz"
    samples = samples_of_page(gzip.decompress(page.read_bytes()).decode())
    (copy / ATTEMPT / SERIES).write_bytes(gzip.compress(samples.encode()))
    profiles = profiles_of(explained(copy))
    (sampled,) = [
        kernel.inside for launches in profiles.values() for kernel in launches if kernel.inside
    ]
    assert sampled.duration_ns == 6816
    (copy / ATTEMPT / SERIES).write_bytes(gzip.compress(b"{}"))
    loaded = explained(copy)
    assert set(profiles_of(loaded)) == {TORCH, BEST}
    (notice,) = [n for n in notices_of(loaded) if n.kind is NoticeKind.ATTEMPT_FILE_DAMAGED]
    assert notice.values["file"] == SERIES


def _no_counters(attempt):
    (attempt / "ncu.csv.gz").write_bytes(b"no gzip")


def _failed(attempt):
    """ncu died in the kernel of a cell, and the journal names it."""
    journal = attempt / "journal.jsonl.gz"
    records = gzip.decompress(journal.read_bytes()).decode().splitlines()
    measured = next(
        at
        for at, line in enumerate(records)
        if {"event": "finished", "phase": "measure", "cell": BEST}.items()
        <= json.loads(line).items()
    )
    records[measured] = json.dumps(
        {"time": 0.0, "event": "failed", "cell": BEST, "phase": "measure", "block": 0}
        | {"outcome": "illegal_address", "cause": "it faulted"}
    )
    journal.write_bytes(gzip.compress("\n".join(records).encode()))


@pytest.mark.parametrize("damage", [_no_counters, _failed, shutil.rmtree])
def test_an_attempt_that_failed_costs_no_cell_its_outcome(copy, results, damage):
    damage(copy / ATTEMPT)
    attempts = attempts_of(copy)
    after = results_of(copy, attempts)
    assert {cell: status.outcome for cell, status in after.statuses.items()} == {
        cell: status.outcome for cell, status in results.statuses.items()
    }
    assert after.statuses[BEST].outcome is Outcome.MEASURED
    assert after.samples.equals(results.samples)
    assert not any(BEST in attempt.details.profiles for attempt in attempts)


def test_a_cell_that_failed_when_it_was_explained_is_not_explained_again(copy):
    _failed(copy / ATTEMPT)
    plan, attempts = RunFolder(copy).plan(), attempts_of(copy)
    assert failures(plan, attempts) == {}
    while_explained = failures(plan, attempts, kind=SessionKind.EXPLAIN)
    assert {cell: failure.outcome for cell, failure in while_explained.items()} == {
        BEST: Outcome.ILLEGAL_ADDRESS
    }


# ---- recordings ----------------------------------------------------------------------------------

OUTSIDE = "/data/team-of-somebody/kernels"


def test_recordings_hold_the_pages_and_no_folder_of_the_sources(copy, tmp_path):
    page = copy / ATTEMPT / SOURCE
    text = gzip.decompress(page.read_bytes()).decode()
    text = text.replace("./kernels/softmax", OUTSIDE)
    text = text.replace("/usr/local/cuda/targets/x86_64-linux/include/sm_30", f"{Path.cwd()}/sm_30")
    page.write_bytes(gzip.compress(text.encode()))
    build = copy / "build.json"
    build.write_text(build.read_text().replace("./kernels/softmax", OUTSIDE))
    run = RunFolder(copy)
    recording = write_recording(run, tmp_path / "recorded.zip", private_texts(run.path))
    target = open_run(recording).path
    assert {RULES, SASS, SOURCE} <= {file.name for file in (target / ATTEMPT).iterdir()}
    for file in filter(Path.is_file, target.rglob("*")):
        content = file.read_bytes()
        plain = gzip.decompress(content) if file.suffix == ".gz" else content
        assert b"somebody" not in plain, file.name
        assert str(Path.cwd()).encode() not in plain, file.name
    instructions = profiles_of(explained(target))[BEST][0].instructions
    files = set(instructions["file"].dropna())
    assert {"SOURCES1/vector.cu", "SOURCES1/reduce.cuh"} <= files
    assert any(file.startswith("./sm_30") for file in files)


def test_folders_of_toolkits_and_below_the_working_folder_are_kept():
    private = [("/srv/project", "."), ("/home/me", "HOME")]
    folders = ["/usr/local/cuda/include", "/srv/project/src", "/home/me/x", "src", "/data/b"]
    assert dict(with_folders(private, [*folders, "/data/b/deep"])) == {
        **dict(private),
        "/home/me/x": "SOURCES1",
        "/data/b": "SOURCES2",
        "/data/b/deep": "SOURCES3",
    }


def test_the_recording_was_made_with_the_sections_of_today():
    command = (RECORDING / ATTEMPT / "command.txt").read_text()
    assert all(f"--section {section}" in command for section in SECTIONS)
