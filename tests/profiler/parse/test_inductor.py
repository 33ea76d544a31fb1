"""What inductor's autotuner says, in the formats of torch 2.11 to 2.13."""

import json

import pytest

from profiler.errors import ParseError
from profiler.parse.inductor import is_inductor_log, parse_inductor_log

PREFIX = (
    "V1120 21:00:00.123000 4242 torch/_inductor/runtime/triton_heuristics.py:1518] [0/0] [__x] "
)
CONFIGS = """\
Benchmark all input configs for triton_red_fused__softmax_0, get:
XBLOCK: 1, R0_BLOCK: 2048, num_warps: 16, num_ctas: 1, num_stages: 1, maxnreg: None: \
0.014240, nreg 32, nspill 0, #shared-mem 64
XBLOCK: 8, R0_BLOCK: 512, num_warps: 8, num_ctas: 1, num_stages: 1, maxnreg: None: \
0.021000, nreg 255, nspill 12, #shared-mem 4096
XBLOCK: 64, R0_BLOCK: 64, num_warps: 8, num_ctas: 1, num_stages: 1, maxnreg: None: \
inf, nreg 40, nspill 0, #shared-mem None
Best config for triton_red_fused__softmax_0: XBLOCK: 1, R0_BLOCK: 2048, num_warps: 16, \
num_ctas: 1, num_stages: 1, maxnreg: None: 0.014240, nreg 32, nspill 0, #shared-mem 64
"""
DESCENT = """\
COORDESC: XBLOCK: 2, R0_BLOCK: 2048, num_warps: 16, num_ctas: 1, num_stages: 1, maxnreg: None: \
0.013000, nreg 40, nspill 0, #shared-mem 128
"""
TABLE = """\
AUTOTUNE mm(4096x512, 512x4096)
strides: [512, 1], [4096, 1]
dtypes: torch.float16, torch.float16
  triton_mm_11 0.0912 ms 100.0% ACC_TYPE='tl.float32', ALLOW_TF32=False, BLOCK_K=32, BLOCK_M=128, \
BLOCK_N=128, EVEN_K=True, GROUP_M=8, num_stages=4, num_warps=8
  mm 0.0968 ms 94.2% 
  triton_mm_3 inf ms 0.0% ACC_TYPE='tl.float32', BLOCK_M=256, num_stages=2, num_warps=4
SingleProcess AUTOTUNE benchmarking takes 2.1234 seconds and 0.4321 seconds precompiling
"""  # noqa: W291 - inductor writes the blank before a description that is empty
ON_A_CPU = """\
select_algorithm.py:4799: UserWarning: TypedStorage is deprecated.
  current_out_size = out_base.storage().size()
Autotune Choices Stats:
{"num_choices": 2, "num_triton_choices": 0, "best_kernel": "cpp_CppMicroGemmFP32Vec_0"}
AUTOTUNE packed_linear(64x256, 1459233x1, 512x256)
strides: [256, 1], [1, 0], [256, 1]
dtypes: torch.float32, torch.float32, torch.float32
  cpp_CppMicroGemmFP32Vec_0 0.1101 ms 100.0% 
  _mkl_linear 0.1199 ms 91.8% 
"""  # noqa: W291 - as torch 2.13 wrote it
STORED = {
    "XBLOCK": 64,
    "R0_BLOCK": 8,
    "num_warps": 4,
    "num_stages": 1,
    "configs_hash": "0a1b",
    "found_by_coordesc": False,
    "time_taken_ms": 231,
    "triton_cache_hash": "XYZ",
}


@pytest.mark.parametrize("prefix", ["", PREFIX])
def test_configurations_of_a_generated_kernel(prefix):
    text = "".join(f"{prefix}{line}\n" for line in ["something else", *CONFIGS.splitlines()])
    first, second, third = parse_inductor_log(text)
    assert first.operation == "triton_red_fused__softmax_0"
    assert first.config == {
        "XBLOCK": 1,
        "R0_BLOCK": 2048,
        "num_warps": 16,
        "num_ctas": 1,
        "num_stages": 1,
        "maxnreg": None,
    }
    assert first.time_ns == pytest.approx(14_240)
    assert (first.registers, first.spills, first.shared_bytes) == (32, 0, 64)
    assert (second.registers, second.spills, second.shared_bytes) == (255, 12, 4096)
    assert [each.best for each in (first, second, third)] == [True, False, False]
    # It could not be run: that is no time, and never 0.
    assert (third.time_ns, third.shared_bytes) == (None, None)


def test_a_winner_that_was_not_listed_stands_by_itself():
    (found,) = parse_inductor_log(CONFIGS.splitlines()[-1])
    assert (found.operation, found.best) == ("triton_red_fused__softmax_0", True)
    assert found.time_ns == pytest.approx(14_240)


def test_steps_of_coordinate_descent_belong_to_the_kernel_before_them():
    found = parse_inductor_log(CONFIGS + DESCENT)[-1]
    assert (found.operation, found.choice) == ("triton_red_fused__softmax_0", "coordinate descent")
    assert (found.config["XBLOCK"], found.registers) == (2, 40)
    assert not found.best


def test_choices_of_an_operation_with_libraries_among_them():
    triton, library, failed = parse_inductor_log(TABLE)
    assert {each.operation for each in (triton, library, failed)} == {"mm(4096x512, 512x4096)"}
    assert (triton.choice, triton.best, triton.registers) == ("triton_mm_11", True, None)
    assert triton.time_ns == pytest.approx(91_200)
    assert triton.config["ACC_TYPE"] == "tl.float32"
    assert triton.config["ALLOW_TF32"] is False
    assert (triton.config["BLOCK_M"], triton.config["num_warps"]) == (128, 8)
    assert (library.choice, library.config, library.best) == ("mm", {}, False)
    assert failed.time_ns is None


def test_a_log_of_a_cpu():
    first, second = parse_inductor_log(ON_A_CPU)
    assert (first.choice, first.best) == ("cpp_CppMicroGemmFP32Vec_0", True)
    assert (second.choice, second.best) == ("_mkl_linear", False)
    assert first.operation == "packed_linear(64x256, 1459233x1, 512x256)"
    assert second.time_ns == pytest.approx(119_900)


def test_two_tables_have_a_winner_each():
    found = parse_inductor_log(TABLE + TABLE.replace("mm(", "addmm("))
    assert [each.operation.partition("(")[0] for each in found if each.best] == ["mm", "addmm"]


def test_a_stored_winner_has_no_time_of_its_own():
    (found,) = parse_inductor_log(json.dumps(STORED), "abc.best_config")
    assert found.operation == "abc.best_config"
    assert found.config == {"XBLOCK": 64, "R0_BLOCK": 8, "num_warps": 4, "num_stages": 1}
    assert found.time_ns is None, "time_taken_ms is that of the tuning"
    assert found.best


@pytest.mark.parametrize(
    "text", ["", "hello", '{"a": 1}', "{", "[]", '"ID","Process ID"', "  mm is a product\n"]
)
def test_other_texts_are_refused(text):
    assert not is_inductor_log(text)
    with pytest.raises(ParseError, match="nothing of an autotuner"):
        parse_inductor_log(text)


@pytest.mark.parametrize("text", [CONFIGS, DESCENT, TABLE, ON_A_CPU, json.dumps(STORED, indent=1)])
def test_texts_of_the_autotuner_are_recognised(text):
    assert is_inductor_log(text)


TRITON = """\
Autotuning kernel add_kernel with config BLOCK_SIZE: 128, num_warps: 4, maxnreg: None
Triton autotuning for function add_kernel,
with key as (1024, 'torch.float32'),
finished after 0.42s,
best config selected: BLOCK_SIZE: 256, num_warps: 4, num_stages: 2, maxnreg: None;
Triton autotuning for function old finished after 1.5s; best config selected: BLOCK: 64, C: 8;
"""
PREFIXES = (
    "",
    "    ",
    "[rank0]:",
    "[rank3]: 2026-01-02T03:04:05,100 [WARN ] W-9000-model_1.0-stderr MODEL_LOG - ",
    "worker-0  | ",
)


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize("text", [CONFIGS, PREFIX + DESCENT, TABLE, ON_A_CPU, TRITON])
def test_anything_may_stand_before_a_line(prefix, text):
    lines = "".join(f"{prefix}{line}\n" for line in text.splitlines())
    if prefix == "[rank0]:" and not text.startswith("V"):
        lines = lines.replace("[rank0]:", f"[rank0]:{PREFIX}")  # as torch itself writes it
    assert parse_inductor_log(lines) == parse_inductor_log(text)


def test_tables_with_other_indentations_stand_apart():
    indented = "".join(f"    {line}\n" for line in TABLE.splitlines())
    first, second = TABLE.replace("mm(4096x512", "addmm(8x8"), indented
    tuned = parse_inductor_log(first + second)
    assert [(config.operation.partition("(")[0], config.best) for config in tuned] == [
        *(("addmm", True), ("addmm", False), ("addmm", False)),
        *(("mm", True), ("mm", False), ("mm", False)),
    ]


def test_a_row_after_the_end_of_its_table_belongs_to_no_operation():
    *_, last = parse_inductor_log(f"{TABLE}  lost 0.0500 ms 100.0%\n")
    assert (last.choice, last.operation, last.best) == ("lost", "", False)


def test_what_triton_prints_of_its_winners_and_tries():
    tried, first, second = parse_inductor_log(TRITON)
    assert (tried.operation, tried.best, tried.config["BLOCK_SIZE"]) == ("add_kernel", False, 128)
    assert (first.operation, first.best, first.time_ns) == ("add_kernel", True, None)
    assert first.config == {"BLOCK_SIZE": 256, "num_warps": 4, "num_stages": 2, "maxnreg": None}
    assert (second.operation, second.config) == ("old", {"BLOCK": 64, "C": 8})


@pytest.mark.parametrize(
    "line", ["a: 1, " * 20_000, " " * 100_000, "x " * 50_000, "nreg: 1, " * 9_000]
)
def test_long_lines_take_no_longer_than_they_are_long(line):
    assert not is_inductor_log(line)
