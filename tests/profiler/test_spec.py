"""Reading the experiment file: what is accepted, and what the complaints say."""

import contextlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from profiler.errors import ExitCode, SpecError, UsageError
from profiler.planning.spec import (
    CommandWorkload,
    ModuleWorkload,
    json_schema,
    load_spec,
)
from profiler.planning.spec.items import Condition
from profiler.planning.spec.source import as_yaml, parse_value
from profiler.planning.spec.values import did_you_mean

SPECS = Path(__file__).parent / "specs"

HEAD = "name: x\nworkload: ./workload.py\n"
VARIANTS = "variants: {list: [one, two]}\n"
MINIMAL = HEAD + VARIANTS


@pytest.fixture
def load(tmp_path):
    def load_text(text, **kwargs):
        path = tmp_path / "spec.yaml"
        path.write_text(text, encoding="utf-8")
        return load_spec(path, **kwargs)

    return load_text


@pytest.fixture
def complaints(load, tmp_path):
    """The lines of the error that a text gives, without the folder."""

    def complaints_of(text, **kwargs):
        with pytest.raises(SpecError) as caught:
            load(text, **kwargs)
        assert caught.value.exit_code == ExitCode.BAD_USAGE
        return caught.value.message.replace(f"{tmp_path}/", "").split("\n")

    return complaints_of


# ---- what is accepted ----------------------------------------------------------------------------


def test_every_key_is_read():
    loaded = load_spec(SPECS / "module.yaml")
    experiment = loaded.experiment
    assert loaded.text == (SPECS / "module.yaml").read_text(encoding="utf-8")
    assert loaded.base == SPECS
    assert experiment.name == "module"
    assert isinstance(experiment.workload, ModuleWorkload)
    assert experiment.workload.target(loaded.base) == str(SPECS / "workload.py")
    assert experiment.variants.list is not None
    first, second, third = experiment.variants.list
    assert (first.name, first.params) == ("reference", {})
    assert (second.name, second.note) == ("special", "by hand")
    assert second.params == {"algorithm": "online", "block": 64}
    assert (third.name, third.params) == (None, {"algorithm": "naive"})
    assert experiment.variants.matrix == (
        {"algorithm": ("online", "shared"), "block": (128, 256, 512)},
        {"algorithm": ("warp",), "rows": (1, 2)},
    )
    collect = experiment.collect
    assert collect.collectors == ("ncu", "timer")
    assert (collect.device, collect.blocks, collect.counter_samples) == ("cuda", (4,), 2)
    assert (collect.warmups, collect.repeats, collect.seed) == (1, 5, 7)
    assert (collect.cache_control, collect.clock_control) == ("none", "base")
    assert collect.time_limit_s == 30
    assert experiment.tolerance["float16"].absolute == 1e-3
    assert experiment.tolerance["default"].absolute == 0
    assert experiment.build.flags == ("--use_fast_math",)


def test_defaults_are_those_of_the_documentation():
    experiment = load_spec(SPECS / "minimal.yaml").experiment
    assert experiment.baseline is None
    assert experiment.title == ""
    assert experiment.collect.collectors == ("ncu",)
    assert (experiment.collect.blocks, experiment.collect.counter_samples) == ((8, 16, 32), 1)
    assert (experiment.collect.final_blocks, experiment.margin_pct) == (12, 1.0)
    assert (experiment.collect.warmups, experiment.collect.repeats) == (3, 20)
    assert experiment.collect.metrics == ("default",)
    assert (experiment.collect.cache_control, experiment.collect.clock_control) == (
        "launch",
        "none",
    )
    assert experiment.collect.time_limit_s == 120
    assert experiment.build.arch == "auto"
    assert experiment.tolerance == {}


def test_a_dotted_module_is_run_by_its_workload(load):
    workload = load(MINIMAL.replace("./workload.py", "my_package.softmax")).experiment.workload
    assert workload.target(Path()) == "my_package.softmax.workload"


def test_command_is_split_before_it_is_filled():
    loaded = load_spec(SPECS / "command.yaml")
    workload = loaded.experiment.workload
    assert isinstance(workload, CommandWorkload)
    assert workload.placeholders == ("kernel", "size")
    values = {"kernel": "two words; rm -rf /", "size": "1024"}
    assert workload.arguments(values) == (
        "./sgemm",
        "--label",
        "two words",
        "two words; rm -rf /",
        "1024",
        "{}",
    )
    assert (workload.launch_skip, workload.launch_count) == (1, 2)
    assert workload.folder(loaded.base) == SPECS / "bin"


def test_values_are_literal_in_a_regular_expression():
    workload = load_spec(SPECS / "command.yaml").experiment.workload
    assert isinstance(workload, CommandWorkload)
    assert workload.kernel_filter({"kernel": "a+b"}) == r"regex:sgemm_a\+b_v[0-9]{1,2}"


def test_a_command_may_be_a_list_with_numbers(load):
    workload = load("name: x\nworkload: {command: [./a, 4096, 0.5]}\n" + VARIANTS).experiment
    assert workload.workload.arguments({}) == ("./a", "4096", "0.5")
    assert workload.workload.kernel_filter({}) is None


@pytest.mark.parametrize(
    "empty",
    [
        *(f"{section}:\n" for section in ("collect", "build", "page", "tolerance", "search")),
        *(f"{section}:\n" for section in ("problems", "exclude", "questions")),
        "collect:\n  metrics:\n  timeline:\n",
        "build:\n  # flags: [-O3]\n",
        "build:\n  flags:\n",
    ],
)
def test_a_section_without_content_is_as_if_absent(load, empty):
    assert load(MINIMAL + empty).experiment == load(MINIMAL).experiment


def test_scientific_notation_is_a_number_and_yes_is_true(load):
    text = HEAD + "variants: {list: [{a: 1e-3, b: 2E6, c: yes, d: '1e3', e: -1.5e+2}]}\n"
    items = load(text).experiment.variants.list
    assert items[0].params == {"a": 1e-3, "b": 2e6, "c": True, "d": "1e3", "e": -150.0}


def test_anchors_and_merge_keys(load):
    text = (
        HEAD + "variants:\n  list:\n    - &base {algorithm: a, block: 1}\n"
        "    - {<<: *base, block: 2}\n"
    )
    items = load(text).experiment.variants.list
    assert [item.params for item in items] == [
        {"algorithm": "a", "block": 1},
        {"algorithm": "a", "block": 2},
    ]


def test_a_byte_order_mark_and_crlf_are_no_problem(tmp_path):
    path = tmp_path / "spec.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + MINIMAL.replace("\n", "\r\n").encode())
    assert load_spec(path).experiment.name == "x"


def test_an_experiment_cannot_be_changed():
    experiment = load_spec(SPECS / "minimal.yaml").experiment
    with pytest.raises(ValidationError):
        experiment.name = "other"


def test_schema_is_for_editors():
    schema = json_schema()
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["additionalProperties"] is False
    assert schema["required"] == ["name", "workload", "variants"]
    matrix = schema["$defs"]["Variants"]["properties"]["matrix"]
    assert [option.get("type") for option in matrix["anyOf"]] == ["object", "array", "null"]


# ---- what is refused -----------------------------------------------------------------------------


def test_everything_that_is_wrong_is_said_at_once_with_its_line():
    with pytest.raises(SpecError) as caught:
        load_spec(SPECS / "wrong.yaml")
    folder = f"{SPECS}/"
    lines = caught.value.message.replace(folder, "").split("\n")
    expected = (
        ("wrong.yaml:2: name: must be 1 to 64 of the characters", "not 'not a slug'"),
        ("wrong.yaml:3: workload.command: missing", ""),
        ("wrong.yaml:3: workload.comand: unknown key", "did you mean 'command'?"),
        ("wrong.yaml:6: variants.list[0]: must be a name or a mapping", "not a number"),
        ("wrong.yaml:7: variants.list[1].block: must be a single value", "not a list"),
        ("wrong.yaml:8: variants.list[2]: needs a name or parameters", ""),
        ("wrong.yaml:10: variants.matrix.block[1]: must be a finite number", ""),
        ("wrong.yaml:11: variants.matrix.tile: must not be empty", ""),
        ("wrong.yaml:14: variants.exclude[0].when.block.mn: unknown key", "did you mean 'min'?"),
        ("wrong.yaml:16: collect.blokcs: unknown key", "did you mean 'blocks'?"),
        (
            "wrong.yaml:17: collect.collectors[0]: no such collector: 'ncuu'; did you mean 'ncu'?",
            "did you mean 'ncu'?",
        ),
        ("wrong.yaml:18: collect.metrics[0]: unknown metric", "did you mean 'default'?"),
        ("wrong.yaml:19: collect.blocks: must be a whole number, not 2.5", ""),
        ("wrong.yaml:20: collect.time_limit_s: must be greater than 0, not 0", ""),
        ("wrong.yaml:22: tolerance.flaot16: unknown dtype", "did you mean 'float16'?"),
        ("wrong.yaml:22: tolerance.flaot16.relative: must be greater than or equal to 0", ""),
        ("wrong.yaml:23: tolerance.default.absolut: unknown key", "did you mean 'absolute'?"),
        (
            "wrong.yaml:24: page.kind: must be 'versions', 'autotune', 'ablation'",
            "did you mean 'versions'?",
        ),
        ("wrong.yaml:25: build.arch: must be auto or an architecture like sm_90", "'sm90'"),
    )
    assert len(lines) == len(expected), caught.value.message
    for line, (begin, part) in zip(lines, expected, strict=True):
        assert line.startswith(begin)
        assert part in line


@pytest.mark.parametrize(
    ("text", "begin"),
    [
        ("", "spec.yaml:1: the file is empty"),
        ("# nothing\n", "spec.yaml:1: the file is empty"),
        ("\n- a\n- b\n", "spec.yaml:2: the top level must be a mapping (`name: …`), not a list"),
        ("softmax", "spec.yaml:1: the top level must be a mapping (`name: …`), not text"),
        ("name: x\nvariants: [1, 2\n", "spec.yaml:3: not valid YAML: while parsing a flow"),
        ("name: x\n\tworkload: y\n", "spec.yaml:2: not valid YAML: "),
        ("name: x\n---\nname: y\n", "spec.yaml:2: not valid YAML: expected a single document"),
        ("a: !!python/name:os.system\n", "spec.yaml:1: not valid YAML: could not determine a"),
        ("name: a\x07b\n", "spec.yaml:1: not valid YAML: special characters"),
        ("name: [" * 3000, "spec.yaml:1: cannot be read as YAML"),
        ('\nname: "\\ud800"\n', "spec.yaml:2: not valid YAML: half of a surrogate pair"),
        ("\nname: !!bool maybe\n", "spec.yaml:2: not valid YAML: 'maybe' is no bool"),
        ("\nname: !!int _\n", "spec.yaml:2: not valid YAML: '_' is no int"),
        ('\n"\\udfff": 1\n', "spec.yaml:2: not valid YAML: half of a surrogate pair"),
        ("name: 2025-13-45\n", "spec.yaml:1: name: YAML reads 2025-13-45 as a date"),
        (f"name: {'9' * 5000}\n", "spec.yaml:1: not valid YAML: a whole number of"),
    ],
)
def test_what_is_no_spec_at_all(complaints, text, begin):
    assert complaints(text)[0].startswith(begin)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (MINIMAL + "name: y\n", "spec.yaml:4: name: this key is already on line 1"),
        (
            HEAD + "variants:\n  matrix:\n    block: 1\n    block: 2\n",
            "spec.yaml:6: variants.matrix.block: this key is already on line 5",
        ),
        (
            HEAD + "variants: {matrix: {tile: [8, 64:32]}}\n",
            "spec.yaml:3: variants.matrix.tile[1]: YAML reads 64:32 as a number in base 60; "
            "put it in quotes",
        ),
        (
            HEAD + "variants: {matrix: {mask: 010}}\n",
            "spec.yaml:3: variants.matrix.mask: YAML reads 010 as octal; drop the leading zero or "
            "put it in quotes",
        ),
        (
            HEAD + "variants: {list: [{day: 2025-01-02}]}\n",
            "spec.yaml:3: variants.list[0].day: YAML reads 2025-01-02 as a date; put it in quotes",
        ),
        (MINIMAL + "on: 1\n", "spec.yaml:4: the key on is not text to YAML; put it in quotes"),
        (
            HEAD + "variants: {matrix: {1: 2}}\n",
            "spec.yaml:3: variants.matrix: the key 1 is not text to YAML; put it in quotes",
        ),
        (
            MINIMAL + "? [a, b]\n: 1\n",
            "spec.yaml:4: the key of several values is not text to YAML; put it in quotes",
        ),
    ],
)
def test_what_yaml_would_misread(complaints, text, line):
    assert line in complaints(text)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("name: x\n", "spec.yaml:1: workload: missing; this key is required"),
        (
            HEAD + "variants: {}\n",
            "spec.yaml:3: variants: needs at least one of list, matrix, sets",
        ),
        (
            HEAD + "variants: one\n",
            "spec.yaml:3: variants: must be a mapping, not 'one'",
        ),
        (MINIMAL + "problems: {}\n", "spec.yaml:4: problems: needs at least one of list, matrix"),
        (HEAD + "variants:\n", "spec.yaml:3: variants: must be a mapping, not nothing"),
        (
            MINIMAL + "collect: {blocks: true}\n",
            "spec.yaml:4: collect.blocks: must be a whole number, not true",
        ),
        (
            MINIMAL + "collect: {blocks: [8, 16, 16]}\n",
            "spec.yaml:4: collect.blocks: must go up from look to look, not [8, 16, 16]",
        ),
        (
            MINIMAL + "collect: {blocks: [16, 8]}\n",
            "spec.yaml:4: collect.blocks: must go up from look to look, not [16, 8]",
        ),
        (
            MINIMAL + "collect: {blocks: [8, 16.5]}\n",
            "spec.yaml:4: collect.blocks[1]: must be a whole number, not 16.5",
        ),
        (
            MINIMAL + "collect: {blocks: []}\n",
            "spec.yaml:4: collect.blocks: must not be empty",
        ),
        (
            MINIMAL + "collect: {blocks: 0}\n",
            "spec.yaml:4: collect.blocks: must be greater than or equal to 1, not 0",
        ),
        (
            MINIMAL + "collect: {final_blocks: -1}\n",
            "spec.yaml:4: collect.final_blocks: must be greater than or equal to 0, not -1",
        ),
        (
            MINIMAL + "collect: {final_blocks: [8]}\n",
            "spec.yaml:4: collect.final_blocks: must be a whole number, not a list",
        ),
        (
            MINIMAL + "margin_pct: -0.5\n",
            "spec.yaml:4: margin_pct: must be greater than or equal to 0, not -0.5",
        ),
        (
            MINIMAL + "margin_pct: 100\n",
            "spec.yaml:4: margin_pct: must be less than 100, not 100",
        ),
        (
            MINIMAL + "margin_pct: .nan\n",
            "spec.yaml:4: margin_pct: must be a finite number, not nan",
        ),
        (
            MINIMAL + "collect: {seed: -1}\n",
            "spec.yaml:4: collect.seed: must be greater than or equal to 0, not -1",
        ),
        (
            MINIMAL + "collect: {time_limit_s: .inf}\n",
            "spec.yaml:4: collect.time_limit_s: must be a finite number, not inf",
        ),
        (
            MINIMAL + "collect: {collectors: [ncu, ncu]}\n",
            "spec.yaml:4: collect.collectors: 'ncu' is in the list twice",
        ),
        (
            HEAD + "variants: {matrix: {a-b: 1}}\n",
            "spec.yaml:3: variants.matrix.a-b: a parameter's name is made of the characters A-Z "
            "a-z 0-9 _, not 'a-b'",
        ),
        (
            HEAD + "variants: {matrix: {a: 0xFFFFFFFFFFFFFFFFFF}}\n",
            "spec.yaml:3: variants.matrix.a: must fit in 64 bits",
        ),
        (
            HEAD + 'variants: {list: ["a\\u0000b"]}\n',
            "spec.yaml:3: variants.list[0]: must not contain control characters",
        ),
        (
            MINIMAL + "exclude: [{name: a, when: {}}]\n",
            "spec.yaml:4: exclude[0].when: must not be empty",
        ),
        (
            MINIMAL + "exclude: [{name: a, when: {b: {}}}]\n",
            "spec.yaml:4: exclude[0].when.b: needs a value, a list, or one of min, max, not",
        ),
        (
            MINIMAL + "exclude: [{name: a, when: {b: {min: 2, max: 1}}}]\n",
            "spec.yaml:4: exclude[0].when.b: min is larger than max",
        ),
        (
            MINIMAL + "exclude: [{name: a, when: {b: 1}}, {name: a, when: {b: 2}}]\n",
            "spec.yaml:4: exclude: 'a' is in the list twice",
        ),
        (
            "name: x\nworkload: {module: a, command: b}\n" + VARIANTS,
            "spec.yaml:2: workload: must be a file (`./mine.py`), "
            "a module (`my_package.softmax`), or a mapping with one of `module`, `command` "
            "and `source`",
        ),
        (
            "name: x\nworkload: {space: ./s.py}\n" + VARIANTS,
            "spec.yaml:2: workload.module: missing; this key is required",
        ),
        (
            "name: x\nworkload: {command: './a \"b'}\n" + VARIANTS,
            "spec.yaml:2: workload: the command cannot be split into arguments: No closing "
            "quotation",
        ),
        (
            "name: x\nworkload: {command: './a {0}'}\n" + VARIANTS,
            "spec.yaml:2: workload: a placeholder in '{0}' is not a plain name like {size}",
        ),
        (
            "name: x\nworkload: {command: './a {b.c!r:>3}'}\n" + VARIANTS,
            "spec.yaml:2: workload: a placeholder in '{b.c!r:>3}' is not a plain name like {size}",
        ),
        (
            "name: x\nworkload: {command: ''}\n" + VARIANTS,
            "spec.yaml:2: workload.command: must not be empty",
        ),
        (
            "name: x\nworkload: {command: ./a, kernel: 'regex:('}\n" + VARIANTS,
            "spec.yaml:2: workload.kernel: is not a regular expression: missing ), unterminated "
            "subpattern at position 0",
        ),
        (
            "name: x\nworkload: {command: ./a}\ncollect: {collectors: timer}\n" + VARIANTS,
            "spec.yaml:1: collect.collectors: an external command is measured by ncu or nsys; "
            "a timer (--timer, --fast) needs a workload in Python",
        ),
        (
            "name: x\nworkload: {command: ./a}\ncollect: {replay_mode: range}\n" + VARIANTS,
            "spec.yaml:1: collect.replay_mode: range replays visits, which an external command "
            "does not have; use application",
        ),
        (
            f"name: x\nworkload: kernels.x\n{VARIANTS}collect: {{replay_mode: application}}\n",
            "spec.yaml:1: collect.replay_mode: application starts the whole process once per pass, "
            "with all visits in it: it is for external commands; use range",
        ),
        (
            f"name: x\nworkload: kernels.x\n{VARIANTS}"
            "collect: {collectors: [ncu, nsys], ncu_timing: false}\n",
            "spec.yaml:4: collect: ncu_timing: false leaves nothing that is judged; add "
            "cupti or cuda_events to collect.collectors",
        ),
        *(
            (
                f"name: x\nworkload: kernels.x\n{VARIANTS}"
                f"collect:\n  timeline:\n    capture: {given}\n",
                "spec.yaml:6: collect.timeline.capture: must be visits, program, or a range as "
                f"NAME or NAME@DOMAIN without a backslash, not {given.strip(chr(39))!r}",
            )
            for given in ("'@domain'", "name@", "a@b@c", "'a\\b'", "''")
        ),
    ],
)
def test_what_is_refused(complaints, text, line):
    assert line in complaints(text)


IN_QUOTES = "a text that begins with a brace stands in quotes"


@pytest.mark.parametrize(
    ("lines", "form"),
    [
        ("variants: [sum, matmul]", "variants: must be a mapping, not a list; write variants: "
         "{list: [sum, matmul]}"),
        ("variants: {method: [sum, mean]}", "variants.method: unknown key; parameters stand under "
         "matrix: {matrix: {method: [sum, mean]}}"),
        ("variants: {list: [a], baseline: a}", "baseline stands beside variants, at the left marg"),
        (f"{VARIANTS}blocks: 4", "blocks: unknown key; blocks stands in collect"),
        (f"{VARIANTS}problems: [64, 128, 256, 512]", "problems: must be a mapping, not a list; "
         "write problems: {matrix: {NAME: [64, 128, 256, …]}}"),
        (f"{VARIANTS}tolerance: {{default: 1e-3}}", "tolerance.default: must be a mapping, not "
         "0.001; write default: {relative: 0.001}, {absolute: 0.001}, or both"),
        (f"{VARIANTS}tolerance: 1e-3", "write tolerance: {default: {relative: 0.001}}"),
        (f"{VARIANTS}build: {{arch: 90}}", "build.arch: must be text, not 90; write arch: sm_90"),
        ("variants: {list: [{name: off}]}", "name: must be text, not false; put it in quotes"),
        ("variants: {list: [{name: 3}]}", "name: must be text, not 3; put it in quotes"),
        ("variants:\n\tlist: [a]", "not valid YAML: a tab, where only spaces may stand"),
        ("variants:\tlist", "not valid YAML: a tab, where only spaces may stand"),
        ("variants: {matrix: {a: {b}}}", f'not a mapping; {IN_QUOTES}: "{{b}}"'),
        (f"{VARIANTS}title: {{kernel}}", f'title: must be text, not a mapping; {IN_QUOTES}: "{{ke'),
        (f"{VARIANTS}title: {{kernel}} {{size}}", f'not valid YAML: while parsing a block mapping '
         f"expected <block end>, but found '{{'; {IN_QUOTES}"),
        (f"{VARIANTS}problems: {{matrix: {{n: [1K]}}}}", "problems.matrix.n[0]: 1K is text to "
         "YAML, not a number; write 1024 or 1000, or put it in quotes"),
        (f"{VARIANTS}problems: {{list: [{{n: 4Mi}}]}}", "4Mi is text to YAML, not a number; write "
         "4194304, or put"),
    ],
)  # fmt: skip
def test_the_right_form_is_said(complaints, lines, form):
    (line,) = complaints(f"name: x\nworkload: kernels.x\n{lines}\n")
    assert form in line


@pytest.mark.parametrize("value", ["'1K'", '"1K"', "1Kx", "K1", "fp16", "1.5K", "{name: 4K, a: 1}"])
def test_other_text_is_text(load, value):
    load(
        f"name: x\nworkload: kernels.x\nvariants: {{list: [{{a: '1'}}]}}\ntitle: 1K\n"
        f"problems: {{list: [{value if value.startswith('{') else '{n: ' + value + '}'}]}}\n"
    )


@pytest.mark.parametrize(
    "text", ["1e3", "1E3", "1e-3", "4k", "2Mi", "yes", "010", "1:30", "2024-01-02", "1", "~", "x"]
)
def test_text_that_is_written_is_read_as_text(load, text):
    variants = {"list": [{"name": "v", "params": {"mode": text}}]}
    data = {"problems": {"matrix": {"n": [text]}}, "variants": variants}
    written = as_yaml({"name": "x", "workload": "kernels.x", **data})
    load(written)  # nothing is refused as a number that was meant
    assert parse_value(written)["problems"] == data["problems"]
    assert parse_value(written)["variants"] == variants


@pytest.mark.parametrize("given", ["visit", "Visits", "progam", "program "])
def test_a_mistyped_capture_is_no_range(load, given):
    text = MINIMAL + f"collect: {{collectors: [ncu, nsys], timeline: {{capture: '{given}'}}}}\n"
    with pytest.raises(SpecError, match=r"did you mean (visits|program)"):
        load(text)


@pytest.mark.parametrize("given", ["my_program", "subprogram", "revisits", "visit@app", "step_15"])
def test_ranges_may_have_almost_any_name(load, given):
    text = MINIMAL + f"collect: {{collectors: [ncu, nsys], timeline: {{capture: '{given}'}}}}\n"
    assert load(text).experiment.collect.timeline.capture == given


def test_timelines_have_settings_of_their_own(load):
    collect = load(MINIMAL).experiment.collect
    assert (collect.timeline.blocks, collect.timeline.launches) == (1, 10)
    assert collect.timeline.capture == "visits"
    text = MINIMAL + "collect: {collectors: [ncu, nsys, torch], timeline: {capture: step@app}}\n"
    assert load(text).experiment.collect.timeline.capture == "step@app"


def test_an_external_command_may_have_a_timeline(load, complaints):
    text = "name: x\nworkload: {command: ./a}\n" + VARIANTS
    assert load(text + "collect: {collectors: [ncu, nsys]}\n").experiment
    assert complaints(text + "collect: {collectors: torch}\n")


@pytest.mark.parametrize("metric", ["lts__t_sectors.sum", "stalls", "duration_ns"])
def test_metrics_that_are_known(load, metric):
    text = MINIMAL + f"collect: {{metrics: {metric}}}\n"
    assert load(text).experiment.collect.metrics == (metric,)


def test_an_alias_bomb_does_not_explode(complaints):
    levels = [f"b{n}: &b{n} [{', '.join([f'*b{n - 1}'] * 9)}]" for n in range(1, 30)]
    text = MINIMAL + "b0: &b0 [1]\n" + "\n".join(levels) + "\n"
    assert all("unknown key" in line for line in complaints(text))


def test_a_structure_that_holds_itself_is_refused(complaints):
    assert "variants.list[0]" in complaints(HEAD + "variants: {list: &a [*a]}\n")[0]


def test_a_file_that_cannot_be_read(tmp_path):
    with pytest.raises(SpecError, match="there is no such file"):
        load_spec(tmp_path / "absent.yaml")
    with pytest.raises(SpecError, match="cannot be read"):
        load_spec(tmp_path)
    latin = tmp_path / "latin.yaml"
    latin.write_bytes(b"name: x\ntitle: caf\xe9\n")
    with pytest.raises(SpecError, match=r"latin\.yaml:2: the file is not UTF-8 \(byte 0xe9\)"):
        load_spec(latin)


@pytest.mark.parametrize(
    ("name", "content", "command"),
    [
        ("gemm.cu", b"__global__ void gemm() {}", "new cuda NAME"),
        ("bench", b"\x7fELF\x02\x01\x01\xd0", "new command NAME"),
        ("run.ncu-rep", b"NVR\x00\x08", "import"),
    ],
)
def test_a_file_of_another_kind_is_refused_with_the_command_for_it(
    tmp_path, name, content, command
):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(SpecError, match=f"{name}: is no experiment file") as raised:
        load_spec(tmp_path / name)
    assert f"`profiler {command}`" in raised.value.remedy


def test_folders_beside_the_file_are_searched_for_headers_and_libraries(load, tmp_path):
    (tmp_path / "lib").mkdir()
    (tmp_path / "header.cuh").touch()
    loaded = load(MINIMAL + "build: {flags: [-Ilib, -Llib, -Iother, -Iheader.cuh, -O3]}\n")
    lib = tmp_path / "lib"
    assert loaded.compiler_flags == (f"-I{lib}", f"-L{lib}", "-Iother", "-Iheader.cuh", "-O3")


# ---- overrides -----------------------------------------------------------------------------------


def test_overrides_are_yaml_laid_over_the_file(load):
    flags = ["collect.blocks=16", "build.flags=[-O3]", "baseline=two", "variants.list.0=zero"]
    loaded = load(MINIMAL, overrides=flags)
    assert loaded.experiment.collect.blocks == (16,)
    assert loaded.experiment.build.flags == ("-O3",)
    assert loaded.experiment.baseline == "two"
    assert [item.name for item in loaded.experiment.variants.list] == ["zero", "two"]
    assert loaded.flags == tuple(flags)
    assert loaded.text == MINIMAL


def test_the_last_override_of_a_key_wins(load):
    loaded = load(MINIMAL, overrides=["collect.blocks=16", "collect.blocks=4"])
    assert loaded.experiment.collect.blocks == (4,)


def test_blocks_are_a_number_or_a_list_of_looks(load):
    for blocks, looks in (
        ("5", (5,)),
        ("[5]", (5,)),
        ("[8, 16]", (8, 16)),
        ("[1, 2, 3]", (1, 2, 3)),
    ):
        assert load(MINIMAL + f"collect: {{blocks: {blocks}}}\n").experiment.collect.blocks == looks
    loaded = load(MINIMAL, overrides=["collect.blocks=[6, 12]"])
    assert loaded.experiment.collect.blocks == (6, 12)


def test_finals_and_the_margin_are_read(load):
    experiment = load(MINIMAL + "collect: {final_blocks: 0}\nmargin_pct: 0.25\n").experiment
    assert (experiment.collect.final_blocks, experiment.margin_pct) == (0, 0.25)
    assert load(MINIMAL + "margin_pct: 0\n").experiment.margin_pct == 0


@pytest.mark.parametrize(
    ("flag", "line"),
    [
        (
            "collect.blokcs=16",
            "--set collect.blokcs=16: collect.blokcs: unknown key; did you mean 'blocks'?",
        ),
        ("colect.blocks=1", "--set colect.blocks=1: colect: unknown key; did you mean 'collect'?"),
        (
            "collect.warmups=many",
            "--set collect.warmups=many: collect.warmups: must be a whole number, not 'many'",
        ),
        (
            "collect.blocks=many",
            "--set collect.blocks=many: collect.blocks[0]: must be a whole number, not 'many'",
        ),
        (
            "name=a b",
            "--set name=a b: name: must be 1 to 64 of the characters A-Z a-z 0-9 _ . - and begin "
            "with a letter or digit, not 'a b'",
        ),
        (
            "collect.collectors=in_kernel & collect.blocks=4",
            "--set collect.collectors=in_kernel --set collect.blocks=4: collect: in_kernel "
            "measures no duration; add ncu or cuda_events to collect.collectors",
        ),
    ],
)
def test_complaints_about_overrides_name_the_flags(complaints, flag, line):
    assert complaints(MINIMAL, overrides=flag.split(" & ")) == [line]


@pytest.mark.parametrize(
    ("flag", "words"),
    [
        ("collect.blocks", "must look like collect.blocks=16"),
        ("=3", "must look like collect.blocks=16"),
        ("collect..blocks=3", "must look like collect.blocks=16"),
        ("collect.blocks=[1", "not valid YAML"),
        ("collect.seed=1:30", "base 60"),
        ("workload.module=x", "workload is text, which has no 'module'"),
        ("variants.list.7=x", "variants.list has 2 entries, counted from 0"),
    ],
)
def test_overrides_that_cannot_be_read(load, flag, words):
    with pytest.raises(UsageError, match=r"^--set ") as caught:
        load(MINIMAL, overrides=[flag])
    assert words in caught.value.message


# ---- properties ----------------------------------------------------------------------------------


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused_with_our_own_error(tmp_path_factory, text):
    path = tmp_path_factory.getbasetemp() / "any.yaml"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(SpecError):
        load_spec(path)


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)


@given(
    st.sampled_from(
        ["workload", "variants", "problems", "exclude", "collect", "tolerance", "page", "build"]
    ),
    st.sampled_from(["", ".list", ".matrix", ".exclude", ".metrics", ".command", ".default"]),
    _json,
)
def test_any_value_in_any_place_is_read_or_refused(key, below, value):
    flag = f"{key}{below}={json.dumps(value)}"
    with contextlib.suppress(SpecError, UsageError):
        load_spec(SPECS / "minimal.yaml", overrides=[flag])


_64_bits = st.integers(-(2**63) + 1, 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)


@given(_64_bits | st.booleans() | st.none())
def test_a_condition_on_a_value_holds_for_that_value_only(value):
    condition = Condition.model_validate(value)
    assert condition.holds(value)
    assert not condition.holds("text")
    assert not condition.holds(not value if isinstance(value, bool) else True)


@pytest.mark.parametrize(
    ("condition", "holds", "fails"),
    [
        (128, [128, 128.0], [129, "128", None, True]),
        ([1, "a"], [1, "a"], [2, "b", True]),
        ({"min": 2}, [2, 2.5, 100], [1, "3", None, True]),
        ({"max": 2}, [2, -1], [2.1, "1", False]),
        ({"min": 1, "max": 3, "not": 2}, [1, 3], [2, 0, 4]),
        ({"not": ["a", "b"]}, ["c", 1, None], ["a", "b"]),
        ({"not": None}, [0, "", False], [None]),
        (None, [None], [0, False, ""]),
        ({"in": True}, [True], [1, "true"]),
    ],
)
def test_conditions(condition, holds, fails):
    parsed = Condition.model_validate(condition)
    assert [value for value in holds if not parsed.holds(value)] == []
    assert [value for value in fails if parsed.holds(value)] == []


@pytest.mark.parametrize(
    ("text", "value"), [("3", 3), ("a", "a"), ("[1, b]", [1, "b"]), ("", None), ("1e3", 1000.0)]
)
def test_values_of_the_command_line(text, value):
    assert parse_value(text) == value


def test_a_variant_is_trusted_with_a_reason_and_only_with_one(load, complaints):
    listed = HEAD + "variants: {{list: [{{name: a, block: 1, {}}}]}}\n"
    (item,) = load(listed.format("trust: true, reason: sparse")).experiment.variants.list
    assert (item.trust, item.reason, item.params) == (True, "sparse", {"block": 1})
    assert "needs a reason" in " ".join(complaints(listed.format("trust: true")))
    assert "needs a reason" in " ".join(complaints(listed.format("trust: true, reason: ' '")))
    assert "which is missing" in " ".join(complaints(listed.format("reason: sparse")))
    problem = listed.format("note: n") + "problems: {list: [{name: p, reason: r}]}\n"
    assert load(problem).experiment.problems.list[0].params == {"reason": "r"}, "of variants alone"


def test_a_message_names_a_few_of_many_candidates():
    names = [f"variant-{number:02}" for number in range(20)]
    text = did_you_mean("nobody", names)
    assert text.startswith("; known: variant-00, ")
    assert text.endswith("variant-11, and 8 more")
    assert did_you_mean("nobody", names[:12]).endswith("variant-10, variant-11")
    assert did_you_mean("variant-017", names) == "; did you mean 'variant-17'?"
