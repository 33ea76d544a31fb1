"""`profiler import` of what inductor's autotuner wrote."""

import gzip
import json

import pytest

from profiler.errors import ParseError
from profiler.importers.registry import read_files
from profiler.render.tuning import config_words

LOG = """\
AUTOTUNE mm(64x64, 64x64)
strides: [64, 1], [64, 1]
dtypes: torch.float32, torch.float32
  triton_mm_1 0.0100 ms 100.0% BLOCK_M=64, BLOCK_N=<script>, num_stages=2, num_warps=4
  mm 0.0150 ms 66.7% 
"""  # noqa: W291 - as inductor writes it
STORED = {"XBLOCK": 64, "num_warps": 4, "num_stages": 1, "configs_hash": "0a1b"}


@pytest.fixture
def files(tmp_path):
    log, packed, stored = (tmp_path / name for name in ("a.log", "b.log.gz", "c.best_config"))
    log.write_text(LOG)
    packed.write_bytes(gzip.compress(LOG.encode()))
    stored.write_text(json.dumps(STORED))
    return [log, packed, stored]


def test_files_of_all_kinds_are_read_in_their_order(files):
    tuned = read_files(files)[0].configurations
    assert [each.choice for each in tuned] == ["triton_mm_1", "mm", "triton_mm_1", "mm", ""]
    assert tuned[-1].operation == "c.best_config"


def test_one_file_of_another_kind_is_named(files, tmp_path):
    other = tmp_path / "other.txt"
    packed = gzip.compress(LOG.encode())
    for content in (b"hello\n", packed[:20], packed[:10] + b"\xff" * 20):  # cut, damaged
        other.write_bytes(content)
        with pytest.raises(ParseError, match=r"other\.txt"):
            read_files([*files, other])
    with pytest.raises(ParseError, match="nowhere"):
        read_files([tmp_path / "nowhere"])


def test_what_a_log_does_not_say_is_null(files):
    (*_, last) = read_files(files)[0].document()["configurations"]
    assert last == {
        "operation": "c.best_config",
        "choice": "",
        "config": {"XBLOCK": 64, "num_warps": 4, "num_stages": 1},
        "time_ns": None,
        "registers": None,
        "spills": None,
        "shared_bytes": None,
        "best": True,
    }


def test_the_command_recognises_such_a_log(profiler):
    (profiler.folder / "a.log").write_text(LOG)
    done = profiler("import", "a.log")
    assert done.code == 0, done.err
    assert "mm(64x64, 64x64)" in done.out
    assert "triton_mm_1 (chosen)" in done.out
    page = (profiler.folder / "a.html").read_text()
    assert "15.00\u202f\u00b5s" in page or "15.00 \u00b5s" in page
    assert "1.500\u00d7" in page
    assert "BLOCK_N=&lt;script&gt;" in page
    assert "BLOCK_N=<script>" not in page


def test_the_command_writes_json(profiler):
    (profiler.folder / "a.log").write_text(LOG)
    found = profiler("import", "a.log", "--json", "-").json
    first, second = found["configurations"]
    assert (first["time_ns"], first["best"], second["best"]) == (10_000.0, True, False)
    assert not list(profiler.folder.glob("*.html"))


CACHE = {
    "device_name": "A100",
    "kernel_name": "add",
    "tune_params_keys": ["block"],
    "tune_params": {"block": [32, 64, 128]},
    "objective": "time",
    "cache": {
        "32": {"block": 32, "time": 0.3, "times": [0.2, 0.3, 0.4], "compile_time": 400.0},
        "64": {"block": 64, "time": 0.1, "times": [0.1, 0.1, 0.1], "compile_time": 410.0},
        "128": {"block": 128, "time": "RuntimeFailedConfig", "compile_time": 420.0},
    },
}


@pytest.mark.parametrize("end", [None, -2, -40])
def test_a_cache_of_kernel_tuner_is_a_table_and_what_simulate_searches(profiler, end):
    """A whole one, one of a run that goes on, and one that was cut inside of its last entry."""
    (profiler.folder / "c.json").write_text(json.dumps(CACHE)[:end])
    read = profiler("import", "c.json", "--json", "-").json
    tried = [(each["config"]["block"], each["time_ns"]) for each in read["configurations"]]
    failed = [] if end == -40 else [(128, None)]
    assert tried == [(32, pytest.approx(300_000)), (64, pytest.approx(100_000)), *failed]
    assert [each["best"] for each in read["configurations"]][:2] == [False, True]
    assert [warning["text"] for warning in read["warnings"]] == (
        ["c.json: 1 entry that was cut off: not read."] if end == -40 else []
    )
    found = profiler("simulate", "c.json", "c.json", "--budget", "3", "--json", "-").json
    assert found["best_ms"] == 0.1


def test_other_texts_are_still_refused(profiler):
    (profiler.folder / "a.txt").write_text("hello\n")
    done = profiler("import", "a.txt")
    assert done.code == 2
    assert "a.txt" in done.err


def test_blocks_come_first_in_words():
    config = {"num_warps": 4, "EVEN_K": True, "BLOCK_M": 64, "matrix_instr": 0}
    assert config_words(config) == "EVEN_K=True, BLOCK_M=64, matrix_instr=0, num_warps=4"
