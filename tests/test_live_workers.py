"""Whole runs on workers of Dask: coordinator, scheduler and workers on loopback, and a fake ncu."""

import gzip
import json
import os
import shutil
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest
from clusters import DRIVER, MODEL, Cluster, end, listening
from searches import BEST, CRASHES, TILES, WRONG, records_of, write_search
from whole_runs import (
    SECRET,
    TESTS,
    attempts,
    finish,
    only_with_everything,
    unpacked,
    visits_of,
    wait_for,
)

from profiler.cluster.parcels import content_hash

STAMPED = TESTS / "workloads/stamped"
ROWS = (4, 8, 16)
EVERYWHERE = "0.0.0.0"  # noqa: S104 - what a worker does not listen on by itself


def write_tiles(line, name="mine", rows=ROWS, workload=TILES, **fields):
    """Spec of three variants whose times are made up by the fake ncu."""
    collect = {"device": "cpu", "blocks": 6, "final_blocks": 0, "warmups": 0}
    collect |= {"metrics": ["duration_ns", "cycles"], **fields.pop("collect", {})}
    variants = [{"name": f"x{x}", "params": {"x": x, "y": 2}} for x in (4, 5)]
    return line.write_spec(
        name,
        workload=workload,
        baseline="base",
        variants={"list": [{"name": "base"}, *variants]},
        problems={"matrix": {"rows": list(rows)}},
        collect=collect,
        **fields,
    )


def summary(run):
    return json.loads((run / "summary.json").read_text())


def results(run):
    """What is true of the cells of a run, whoever measured them."""
    return [(cell["id"], cell["outcome"], cell["metrics"]) for cell in summary(run)["cells"]]


def visits(run):
    return [visit for folder in attempts(run) for visit in visits_of(folder)]


def workers_of(run):
    """Worker of each attempt."""
    return [json.loads((folder / "worker.json").read_text()) for folder in attempts(run)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory, command_line):
    cluster = Cluster(command_line(tmp_path_factory.mktemp("cluster")))
    cluster.start_scheduler()
    cluster.start_worker("one")
    # Its variables are those of the command while it measures for it.
    cluster.start_worker("slow", FAKE_NCU_SLOW_S=0.02, OMP_DYNAMIC="true", OMP_NUM_THREADS=2)
    yield cluster
    cluster.close()


@pytest.fixture(scope="module")
def measured(cluster):
    """Spec, the run of this machine alone, the run of two workers, and what was said."""
    spec = write_tiles(cluster.line, collect={"explain": True})
    alone = cluster.line.measure(spec, "--out", "alone")
    assert alone.code == 0, alone.err
    (run_alone,) = sorted((cluster.folder / "alone/mine").glob("[0-9]*"))
    done = cluster.measure(spec)
    assert done.code == 0, done.err
    (run,) = cluster.line.runs()
    return spec, run_alone, run, done


def test_two_workers_find_what_one_machine_finds(measured):
    _, alone, run, done = measured
    assert results(run) == results(alone)
    assert "2 workers: Made-up GPU, driver 580.1." in done.err
    assert "(3 of 3 problems)" in done.err
    assert done.err.count("Two GPUs of one host gain nothing under ncu 2025") == 1


def test_every_visit_was_made_once_and_says_by_which_gpu(measured):
    _, alone, run, _ = measured
    assert sorted(visits(run)) == sorted(visits(alone))
    explained = [folder for folder in attempts(run) if folder.name.startswith("ncu-explain")]
    assert explained, "decided when all problems were measured"
    assert all((folder / "rules.csv.gz").exists() for folder in explained)
    workers = workers_of(run)
    assert {worker["name"] for worker in workers} == {"worker-1", "worker-2"}
    assert all((worker["gpu"], worker["driver"]) == (MODEL, DRIVER) for worker in workers)
    assert all(worker["gpu_uuid"].startswith("gpu-") for worker in workers), "a hash"
    (notice,) = [n for n in summary(run)["notices"] if n["kind"] == "several_gpus"]
    for worker in workers:
        assert f"{worker['name']} ({worker['gpu_uuid']})" in notice["text"]
    assert json.loads((run / "run.json").read_text())["environment"]["gpu_uuid"] is None


def test_spans_of_workers_are_on_the_clock_of_the_coordinator(measured):
    _, _, run, _ = measured
    (spans,) = json.loads((run / "seconds.json").read_text())["executions"]
    rows = {span["row"] for span in spans}
    assert {folder.name for folder in attempts(run)} < rows
    drawn = next(span for span in spans if span["step"] == "finds and draws")
    measuring = [span for span in spans if span["step"] == "measures"]
    assert all(0 < span["begin_s"] < span["end_s"] < drawn["end_s"] for span in measuring)


def test_nothing_private_of_a_worker_leaves_the_run_folder(cluster, measured):
    _, _, run, _ = measured
    assert cluster.line("record", run, "recorded.zip").code == 0
    recording = unpacked(cluster.folder / "recorded.zip")
    shared = [file for file in recording.rglob("*") if file.is_file()]
    assert any(file.name == "worker.json" for file in shared)
    for file in shared:
        text = file.read_bytes()
        text = gzip.decompress(text) if file.suffix == ".gz" else text
        for private in (b"GPU-one", b"GPU-slow", SECRET.encode(), bytes(cluster.folder)):
            assert private not in text, file


def test_the_same_command_goes_on_by_what_is_there(cluster, measured):
    """Also where the GPU that measured a problem is not among the workers any more."""
    spec, _, run, _ = measured
    made = attempts(run)
    explained = next(folder for folder in made if folder.name.startswith("ncu-explain"))
    cell = visits_of(explained)[0][0]
    again = cluster.measure(spec, "--explain", cell)  # no other problem has it
    assert again.code == 0, again.err
    assert again.err.count("nothing is missing") == len(ROWS)
    (lost,) = [folder for folder in made if "rows=16" in str(visits_of(folder)[0])]
    lost.rename(cluster.folder / "lost")
    third = cluster.measure(spec)
    assert third.err.count("nothing is missing") == len(ROWS) - 1
    assert "rows=16: measured" in third.err
    assert cluster.line.runs() == [run]
    assert len(attempts(run)) == len(made)


def test_libraries_travel_by_their_content_and_workers_compile_nothing(cluster):
    """Those with stamps inside their kernels, too."""
    spec = cluster.line.write_spec(
        "stamped",
        workload={"module": str(STAMPED / "workload.py"), "space": str(STAMPED / "space.py")},
        variants={"list": [{"name": n, "params": {"source": n}} for n in ("torch", "kernel")]},
        problems={"matrix": {"n": [64]}},
        build={"arch": "sm_90"},
        collect={
            "device": "cpu",
            "collectors": ["timer", "in_kernel"],
            "metrics": ["duration_ns"],
            "blocks": 1,
            "repeats": 1,
            "warmups": 0,
        },
    )
    done = cluster.measure(spec, PATH=f"{TESTS / 'fake_nvcc'}{os.pathsep}{os.environ['PATH']}")
    assert done.code == 0, done.err
    assert "gain nothing" not in done.err, "nothing is measured by ncu"
    (run,) = cluster.line.runs("stamped")
    assert {cell["outcome"] for cell in summary(run)["cells"]} == {"measured"}
    libraries = []
    for folder in attempts(run):
        cells = json.loads((folder / "job.json").read_text())["cells"]
        (library,) = {cell["library"] for cell in cells if cell["library"] is not None}
        assert Path(library).stem == content_hash(Path(library).read_bytes())
        assert Path(library).is_relative_to(cluster.folder / "scratch")
        libraries.append(library)
    assert len(set(libraries)) == 2, "one of them with stamps"
    assert (run / "raw/in-kernel.001/stamps.jsonl.gz").exists()


def test_a_gpu_has_one_worker(cluster):
    second = cluster.start_worker("one")
    printed = finish(second)[2]
    assert "no scheduler takes this worker" in printed
    assert "A GPU can have one worker only." in printed


def test_another_driver_is_refused_or_a_device_of_its_own(cluster):
    cluster.start_worker("newer", driver="590.2")
    spec = write_tiles(cluster.line, "drivers", rows=ROWS[:1])
    done = cluster.measure(spec)
    assert done.code == 0, done.err
    assert f"on {MODEL}, driver 590.2, not on {MODEL}, driver 580.1." in done.err
    (first,) = cluster.line.runs("drivers")
    assert {worker["driver"] for worker in workers_of(first)} == {DRIVER}
    both = cluster.measure(spec, "--mixed")
    assert both.code == 0, both.err
    assert both.err.count("nothing is missing") == 1
    same, second = cluster.line.runs("drivers")
    assert same == first
    assert {worker["driver"] for worker in workers_of(second)} == {"590.2"}
    assert json.loads((second / "run.json").read_text())["environment"]["driver"] == "590.2"
    assert results(second) == results(first)


def tls_flags(folder):
    """Flags with a certificate that is its own authority; none where openssl is not installed."""
    openssl = shutil.which("openssl")
    if openssl is None:
        return []
    cert, key = folder / "cert.pem", folder / "key.pem"
    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    files = ("-keyout", key, "-out", cert, "-days", "2", "-subj", "/CN=localhost")
    command = [openssl, "req", "-x509", *curve, *map(str, files)]
    subprocess.run(command, check=True, capture_output=True)
    return ["--tls-ca", cert, "--tls-cert", cert, "--tls-key", key]


def start_local(cluster, spec, *flags, **environment):
    """Start a run with one worker of this host; gives it, and the sockets that it listens on."""
    coordinator = cluster.start_coordinator(spec, *flags, workers="local:1", **environment)
    cluster.workers.append(coordinator)  # ended where this fails
    wait_for(lambda: "1 worker: " in coordinator.written()[1])
    return coordinator, listening(coordinator)


def test_workers_of_this_host_are_started_and_ended(other_cluster):
    """Scheduler, nanny and worker listen, and the HTTP of the first and the last.

    Variables that Dask has for its own workers, such as MKL_NUM_THREADS, would be in the keys.
    """
    cluster = other_cluster
    spec = write_tiles(cluster.line, rows=ROWS[:1])
    coordinator, sockets = start_local(cluster, spec, *tls_flags(cluster.folder))
    assert sockets == ["127.0.0.1"] * 5
    cluster.workers.remove(coordinator)
    code, _, progress = finish(coordinator)
    assert code == 0, progress
    assert "(1 of 1 problems)" in progress
    assert "Dashboard: http://127.0.0.1:" in progress
    assert "neither encrypted" not in progress, "it is on loopback"
    assert "gain nothing" not in progress, "it is one"
    (run,) = cluster.line.runs()
    assert [worker["name"] for worker in workers_of(run)] == ["worker-1"]
    assert {cell["outcome"] for cell in summary(run)["cells"]} == {"measured"}
    made = attempts(run)
    here = cluster.line.measure(spec)
    assert f"Resuming {run}" in here.err, here.err
    assert attempts(run) == made, "measured as here"


@only_with_everything  # of a worker by itself it is asked below
def test_without_a_dashboard_nothing_listens_for_http(other_cluster):
    spec = write_tiles(other_cluster.line, rows=ROWS[:1])
    fork = {"DASK_DISTRIBUTED__WORKER__MULTIPROCESSING_METHOD": "fork"}  # a third of the time
    coordinator, sockets = start_local(other_cluster, spec, "--no-dashboard", **fork)
    assert sockets == ["127.0.0.1"] * 3
    other_cluster.workers.remove(coordinator)
    coordinator.send_signal(signal.SIGTERM)
    assert "Dashboard: " not in finish(coordinator)[2]


def test_a_worker_listens_where_it_reaches_its_scheduler_and_elsewhere_if_that_is_named(cluster):
    """Whoever reaches a socket of Dask can run code there."""
    sockets = {
        flags: listening(cluster.start_worker(f"listens{number}", *flags))
        for number, flags in enumerate(((), ("--no-dashboard",), ("--host", EVERYWHERE)))
    }
    assert sockets == {
        (): ["127.0.0.1"] * 2,  # Dask's protocol and its HTTP
        ("--no-dashboard",): ["127.0.0.1"],
        ("--host", EVERYWHERE): [EVERYWHERE] * 2,
    }
    written = cluster.workers[-1].written()[1]
    assert f"tcp://{EVERYWHERE} is neither encrypted nor authenticated" in written
    for _ in sockets:
        end(cluster.workers.pop())


@pytest.fixture
def other_cluster(profiler):
    """A cluster without workers, for tests that break it."""
    cluster = Cluster(profiler)
    cluster.start_scheduler()
    yield cluster
    cluster.close()


def visits_on_worker(cluster, name, journals="journal.jsonl"):
    """Visits in the journals of a worker; none while one of its folders goes away."""
    folder = cluster.folder / "scratch" / name
    with suppress(FileNotFoundError):
        return [visit for file in folder.rglob(journals) for visit in visits_of(file.parent)]
    return []


def kill_in_block(cluster, worker, name, block):
    """Kill a worker when the journal of its session has visits of a block."""
    wait_for(lambda: any(made >= block for _, made, _ in visits_on_worker(cluster, name)))
    end(worker)


@pytest.fixture(scope="module")
def died_twice(tmp_path_factory, command_line):
    """The run of a worker that was killed while it measured, and while it explained; messages.

    It is there again each time, at another address: Dask starts a worker anew that died.
    """
    cluster = Cluster(command_line(tmp_path_factory.mktemp("died_twice")))
    cluster.start_scheduler()
    spec = write_tiles(cluster.line, rows=ROWS[:1], collect={"explain": True})
    dying = cluster.start_worker("dying", FAKE_NCU_SLOW_S=0.1)
    coordinator = cluster.start_coordinator(spec)
    kill_in_block(cluster, dying, "dying", 3)
    dying = cluster.start_worker("dying", FAKE_NCU_SLOW_S=0.05)
    wait_for(lambda: visits_on_worker(cluster, "dying", "ncu-explain*/journal.jsonl"))
    end(dying)
    cluster.start_worker("dying")
    progress = finish(coordinator)[2]
    (run,) = cluster.line.runs()
    yield run, progress
    cluster.close()


def test_what_a_dead_worker_had_goes_on_where_its_gpu_is(died_twice):
    """It costs the block that was under way."""
    run, progress = died_twice
    assert "(1 of 1 problems)" in progress
    measuring = [folder for folder in attempts(run) if not folder.name.startswith("ncu-explain")]
    made = [set(visits_of(folder)) for folder in measuring]
    assert sum(map(len, made)) == len(set().union(*made)) == 6 * 4, "no visit was made twice"
    assert {worker["name"] for worker in workers_of(run)} == {"worker-1"}
    (left,) = [f for f in measuring if not (f / "result.json").exists()]
    assert len(visits_of(left)) >= 3 * 4, "its whole blocks count"
    assert {cell["outcome"] for cell in summary(run)["cells"]} == {"measured"}


def test_a_worker_that_dies_while_it_explains_goes_on_when_it_is_there_again(died_twice):
    run, progress = died_twice
    assert "Not explained" not in progress
    explained = [folder for folder in attempts(run) if folder.name.startswith("ncu-explain")]
    cells = {cell for folder in explained for cell, _, _ in visits_of(folder)}
    assert any("rows=4" in cell for cell in cells)


def test_what_a_dead_worker_had_begins_anew_where_its_gpu_stays_away(other_cluster):
    cluster = other_cluster
    spec = write_tiles(cluster.line, rows=ROWS[:1])
    dying = cluster.start_worker("dying", FAKE_NCU_SLOW_S=0.05)
    coordinator = cluster.start_coordinator(spec)
    kill_in_block(cluster, dying, "dying", 0)
    cluster.start_worker("heir")
    progress = finish(coordinator)[2]
    assert "begins anew: its GPU did not come back" in progress
    assert "(1 of 1 problems)" in progress
    (run,) = cluster.line.runs()
    assert {worker["name"] for worker in workers_of(run)} == {"worker-1"}, "the heir"
    assert len(visits(run)) == len(set(visits(run))) == 6 * 4
    assert {cell["outcome"] for cell in summary(run)["cells"]} == {"measured"}


def test_a_killed_coordinator_has_what_was_complete_of_a_problem_under_way(other_cluster):
    cluster = other_cluster
    two_sessions = {"metrics": ["duration_ns", "l2_hit_pct"], "blocks": 2}
    spec = write_tiles(cluster.line, rows=ROWS[:1], collect=two_sessions)
    cluster.start_worker("slow", FAKE_NCU_SLOW_S=0.25)
    coordinator = cluster.start_coordinator(spec)
    (run,) = wait_for(cluster.line.runs)
    wait_for(lambda: list(run.glob("raw/*/session.json")))
    end(coordinator)
    came = attempts(run)  # one, and on a machine that is busy elsewhere perhaps the other, too
    (run / ".arriving.half").mkdir()
    again = cluster.measure(spec)
    assert again.code == 0, again.err
    assert "Resuming" in again.err
    assert cluster.line.runs() == [run]
    assert set(came) <= set(attempts(run))
    assert not list(run.glob(".arriving.*"))
    made = [visits_of(folder) for folder in attempts(run)]
    assert sorted(map(len, made)) == [3, 2 * 4], "of two sessions, each made once"


def test_a_lost_scheduler_ends_the_run_which_goes_on_with_the_next(other_cluster):
    cluster = other_cluster
    spec = write_tiles(cluster.line, rows=ROWS[:2])
    worker = cluster.start_worker("one")
    coordinator = cluster.start_coordinator(spec, module="hasty_coordinator")
    (run,) = wait_for(cluster.line.runs)
    wait_for(lambda: list(run.glob("raw/*/session.json")))
    end(cluster.scheduler)
    progress = finish(coordinator)[2]
    assert "The connection to the scheduler was lost" in progress
    assert "run the same command: it goes on" in progress
    came = attempts(run)
    end(worker)
    cluster.start_scheduler()
    cluster.start_worker("one")
    again = cluster.measure(spec)
    assert again.code == 0, again.err
    assert cluster.line.runs() == [run]
    assert set(came) < set(attempts(run))
    assert len(visits(run)) == len(set(visits(run))) == 6 * 4 * 2


def test_a_worker_waits_for_its_scheduler_and_says_so(profiler):
    cluster = Cluster(profiler)
    flags = ("worker", cluster.address, "--device", "cpu")
    worker = cluster.start_process("hasty_coordinator", *flags)
    cluster.workers.append(worker)
    wait_for(lambda: "No scheduler answers" in worker.written()[1])
    cluster.start_scheduler()
    wait_for(lambda: "Measuring on" in worker.written()[1])
    cluster.close()


FAULTS = {
    "full_disk": "File too large",
    "corrupted": "is not the one that was sent",
    "elsewhere": "The files behind mine.yaml are not those of the coordinator.",
}


def test_a_worker_with_a_fault_is_named_and_the_others_go_on(other_cluster):
    """Each worker begins with one of the problems, and the sound one gets all in the end."""
    cluster = other_cluster
    shutil.copy(TILES, cluster.folder / "own.py")
    spec = write_tiles(cluster.line, rows=(*ROWS, 32), workload="./own.py")
    for fault in FAULTS:
        cluster.start_worker(fault, fault=fault)
    cluster.start_worker("sound")
    done = cluster.measure(spec)
    assert done.code == 0, done.err
    for words in FAULTS.values():
        named = [line for line in done.err.splitlines() if words in line]
        assert named, done.err
        assert all("another worker gets it" in line for line in named)
    (run,) = cluster.line.runs()
    assert {worker["name"] for worker in workers_of(run)} == {"worker-1"}
    assert {cell["outcome"] for cell in summary(run)["cells"]} == {"measured"}


# ---- a search ------------------------------------------------------------------------------------


SEARCHED = 20


@pytest.fixture(scope="module")
def searched(cluster):
    """A search of two workers whose coordinator was killed once: run, journal then, messages."""
    spec = write_search(cluster.line, "searched", SEARCHED)
    coordinator = cluster.start_coordinator(spec)
    (run,) = wait_for(lambda: cluster.line.runs("searched"))
    wait_for(lambda: len(records_of(run, "evaluated")) >= 3)
    end(coordinator)
    before = (run / "search/journal.jsonl").read_text()
    done = cluster.line(spec, "--workers", cluster.address)
    assert done.code == 0, done.err
    assert cluster.line.runs("searched") == [run]
    return run, before, done


def test_each_configuration_is_proposed_once_and_measured_on_one_gpu(searched):
    run, before, done = searched
    assert "of them made already" in done.err
    assert (run / "search/journal.jsonl").read_text().startswith(before)
    proposed = [record["variant"] for record in records_of(run, "proposed")]
    evaluated = {record["variant"]: record for record in records_of(run, "evaluated")}
    assert len(proposed) == len(set(proposed)) == len(evaluated) == SEARCHED
    assert len(records_of(run, "evaluated")) == SEARCHED
    assert evaluated[CRASHES]["outcome"] == "crashed"
    assert evaluated[WRONG]["outcome"] == "wrong_result"
    workers = {record["worker"] for record in evaluated.values()}
    assert workers == {"worker-1", "worker-2"}
    joined = {record["worker"]: record["gpu_uuid"] for record in records_of(run, "worker_joined")}
    assert joined.keys() == workers
    assert all(uuid.startswith("gpu-") for uuid in joined.values()), "a hash"
    assert records_of(run, "looked_again"), "batches have the incumbent"
    assert {look["worker"] for look in records_of(run, "looked_again")} <= workers


def test_finalists_of_a_search_are_measured_as_problems(searched):
    run, _, done = searched
    (finished,) = records_of(run, "finished")
    assert finished["finalists"][0] == BEST
    assert "(2 of 2 problems)" in done.err
    variants = {cell["variant"].replace(",", ".") for cell in summary(run)["cells"]}
    assert variants == {"base", *finished["finalists"]}
    assert {cell["outcome"] for cell in summary(run)["cells"]} == {"measured"}
    workers = {trial["worker"] for trial in summary(run)["search"]["evaluations"]}
    assert workers == {"worker-1", "worker-2"}
    page = (run / "index.html").read_text()
    assert "Ratios were measured on 2 GPUs" in page
