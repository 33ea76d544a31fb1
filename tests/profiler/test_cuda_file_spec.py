"""What is written about a `.cu` file: read, filled in, and refused with file and line."""

from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from profiler.errors import SpecError
from profiler.kernels.cuda_file.space import LAUNCH_HEADER
from profiler.planning.plan import make_plan
from profiler.planning.space import space_of
from profiler.planning.spec import load_spec

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "experiments/transpose.yaml"

TENSORS = "PROFILER_UNTYPED_TENSOR(0,1,x) PROFILER_UNTYPED_TENSOR(0,2,y)"

SPEC = """\
name: scale
workload:
  source: scale.cu
  kernel: "scale<{width}>"
  arguments: {x: {shape: [n], dtype: dtype}, y: {shape: n, dtype: dtype, output: true}, n}
  grid: [ceil_div(n, block_size * width), 1]
  block: block_size
  reference: 2 * x
  flops: n
variants:
  list:
    - {name: torch, torch: 2 * x}
    - {width: 4, block_size: 128, FAST: true}
    - {width: 1, kernel: "plain", grid: [n, 1], block: [1, 1], SPARE: null}
problems: {matrix: {n: [1000, 5000], dtype: float16}}
"""


@pytest.fixture
def planned(tmp_path):
    def plan_of(text=SPEC):
        path = tmp_path / "scale.yaml"
        path.write_text(text)
        loaded = load_spec(path)
        space = space_of(loaded)
        return make_plan(loaded, space), space

    return plan_of


def test_the_example_has_fifteen_lines_and_is_planned():
    loaded = load_spec(EXAMPLE)
    plan = make_plan(loaded, space_of(loaded))
    assert len(EXAMPLE.read_text("utf-8").splitlines()) <= 15
    assert len(plan.cells) == 8
    assert [variant.name for variant in plan.variants] == ["torch", "naive", "tiled", "padded"]


def test_variants_become_recipes(planned, tmp_path):
    plan, space = planned()
    torch, wide, plain = (space.recipe(variant.params) for variant in plan.variants)
    assert torch is None
    assert wide.included == plain.included == (LAUNCH_HEADER, tmp_path.resolve() / "scale.cu")
    assert wide.defines == {
        "PROFILER_KERNEL": "scale<4>",
        "PROFILER_ARGUMENTS": "3",
        "PROFILER_TENSORS": TENSORS,
        "FAST": "true",
    }
    # Small letters make no macro, and null defines nothing.
    assert plain.defines == {
        "PROFILER_KERNEL": "plain",
        "PROFILER_ARGUMENTS": "3",
        "PROFILER_TENSORS": TENSORS,
    }


def test_what_acts_at_launch_keeps_variants_of_the_same_code_apart(planned):
    plan, space = planned()
    _, wide, plain = (space.at_launch(variant.params) for variant in plan.variants)
    assert wide["block_size"] == 128
    assert wide["width"] == 4
    assert plain["launch"] == "<<<n, 1; 1, 1; 0>>>(x, y, n)"
    assert "FAST" not in wide


def test_variants_are_called_by_their_kernel_and_what_else_they_set(planned):
    plan, _ = planned(SPEC.replace("{name: torch, torch", "{torch"))
    assert [variant.name for variant in plan.variants] == [
        "2 * x",
        "scale<4>,block_size=128,FAST=true",
        'plain,width=1,grid="n, 1",block="1, 1",SPARE=null',
    ]


def test_macros_that_are_named_are_the_only_ones(planned):
    text = SPEC.replace("  flops: n", '  define: {WIDTH: "{width}", DEBUG: 0}')
    plan, space = planned(text)
    assert space.recipe(plan.variants[1].params).defines == {
        "PROFILER_KERNEL": "scale<4>",
        "PROFILER_ARGUMENTS": "3",
        "PROFILER_TENSORS": TENSORS,
        "WIDTH": "4",
        "DEBUG": 0,
    }
    plan, space = planned(SPEC.replace("  flops: n", "  define: [width]"))
    assert space.recipe(plan.variants[2].params).defines["width"] == "1"


def test_a_launch_that_no_gpu_can_do_is_left_out_with_the_reason(planned):
    plan, _ = planned(SPEC.replace("block_size: 128", "block_size: 2048"))
    (reason,) = [excluded.reason for excluded in plan.excluded if excluded.count]
    assert reason == "block of 2048 x 1 x 1: each must be from 1 to 1024 x 1024 x 64"
    plan, _ = planned(SPEC.replace("block: [1, 1]", "block: [64, 64]"))
    (reason,) = [excluded.reason for excluded in plan.excluded if excluded.count]
    assert reason == "block of 64 x 64 x 1 threads: at most 1024"


@pytest.mark.parametrize("arguments", ['"n // 2, y, 0.5, x"', "[n // 2, y, 0.5, x]"])
def test_other_arguments_of_one_kernel(planned, arguments):
    text = SPEC.replace("SPARE: null", f"arguments: {arguments}")
    plan, space = planned(text.replace("dtype: dtype, output", "dtype: float16, output"))
    recipe = space.recipe(plan.variants[2].params)
    assert recipe.defines["PROFILER_ARGUMENTS"] == "4"
    # The dtype of x is that of the problem: only the runner knows it.
    assert recipe.defines["PROFILER_TENSORS"] == (
        "PROFILER_TENSOR(0,2,y,float16,f,2) PROFILER_UNTYPED_TENSOR(0,4,x)"
    )
    assert "(n // 2, y, 0.5, x)" in space.at_launch(plan.variants[2].params)["launch"]


def test_a_parameter_in_the_name_of_the_kernel_is_no_macro(planned):
    """`template <int TILE>` would become `template <int 32>`."""
    text = SPEC.replace("width", "WIDTH").replace("shared: 0", "")
    plan, space = planned(text.replace("WIDTH: 4,", "WIDTH: 4, shared: 4 * size_of(float32),"))
    params = plan.variants[1].params
    defines = space.recipe(params).defines
    assert defines["PROFILER_KERNEL"] == "scale<4>"
    assert "FAST" in defines
    assert "WIDTH" not in defines
    plain = space.recipe(plan.variants[2].params).defines
    assert plain["WIDTH"] == 1


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("ceil_div(n, b", "ceil_div(m, b", "6: workload.grid: there is no 'm'; known: "),
        ("block: block_size\n", "block: block_siz\n", "did you mean 'block_size'?"),
        ("block: block_size\n", "block: n / 3\n", "7: workload.block: 'n / 3' is 333.333, which"),
        ("block: block_size\n", "block: n +\n", "7: workload.block: 'n +' is no arithmetic"),
        ("block: block_size\n", "block: [1, 2, 3, 4]\n", "7: workload.block: has 4 values; there"),
        ("  block: block_size\n", "", "workload.block: no block: give it for"),
        ("[n], dtype: dtype", "[n - 1000], dtype: dtype", "5: workload.arguments.x.shape: x: the"),
        (
            "dtype: float16",
            "dtype: float61",
            "arguments.x.dtype: x: no dtype 'float61'",
        ),
        ("reference: 2 * x", "reference: 2 * z", "8: workload.reference: there is no 'z'"),
        ("reference: 2 * x", "reference: 2 * y", "8: workload.reference: there is no 'y'"),
        ("reference: 2 * x", "reference: x.tt()", "8: workload.reference: no method 'tt'"),
        ("  reference: 2 * x\n", "", "2: workload.reference: missing; this key is required"),
        ("torch: 2 * x", "torch: 2 * q", "12: variants.list[0].torch: there is no 'q'"),
        ("flops: n", "flops: [n]", "9: workload.flops: must be a number or arithmetic over"),
        ("flops: n", "flops: width * n", "9: workload.flops: there is no 'width'"),
        ("flops: n", "flops: ceil_div(n", "inside of brackets YAML ends a text at a comma"),
        ("scale<{width}>", "scale<{wdith}>", "4: workload.kernel: nothing fills {wdith} in"),
        ("scale<{width}>", "scale<{width>", "4: workload.kernel: braces in"),
        (", output: true", "", "5: workload.arguments: no tensor is an output"),
        (", output: true", ", output: yes please", "arguments.y.output: must be true or false"),
        ("{shape: [n], ", "{shape: [n], fill: nomral, ", "did you mean 'normal'?"),
        ("{shape: [n], ", "{shape: [n], fill: {uniform: 3}, ", "needs a list of two numbers"),
        ("{shape: [n], ", "{shape: [n], fill: {uniform: [1, m]}, ", "x.fill: there is no 'm'"),
        ("{shape: [n], ", "{shape: [n], fill: {uniform: [1, -n]}, ", "the least is not below the"),
        ("{shape: [n], ", "{shape: [n], fill: {normal: [0, -1]}, ", "deviation is below 0: -1"),
        ("{shape: [n], ", "{shape: [n], fill: {integers: [0.5, 2]}, ", "not 0.5 and 2"),
        (
            "{shape: [n], ",
            "{shape: [n], fill: .nan, ",
            "5: workload.arguments.x.fill: must be finite",
        ),
        ("[n], dtype: dtype}", "[n], dtype: int32, fill: -.inf}", "int32 has no infinity"),
        ("{shape: [n], ", "{shape: [n], fill: {normal: [.nan, 1]}, ", "must be finite"),
        ("{shape: [n], ", "{shape: [n], fill: {uniform: [0, .inf]}, ", "must be finite, not inf"),
        (
            "{shape: [n], ",
            "{shape: [n, 10**12], ",
            "5: workload.arguments.x.shape: x: float16 of the shape [1000, 1000000000000] takes "
            "2,000,000,000,000,000 bytes (2,000 TB), more than any GPU has (problem '",
        ),
        ("true}, n}", "true}, n, FAST}", "5: workload.arguments: there is no 'FAST'"),
        (
            "reference: 2 * x",
            "reference: 2 * x, x",
            "gives 2 results; arguments that are outputs: 1",
        ),
        ("torch: 2 * x", "torch: 2 * x, kernel: a", "has a kernel, too; take one of the two"),
        ("  flops: n", "  flops: -n", "9: workload.flops: '-n' is -1000, which is below 0"),
        (
            "  flops: n",
            "  define: [wdith]",
            "9: workload.define: no variant has a parameter: there is no 'wdith'",
        ),
        ("{x: {", "{n: {", "5: workload.arguments"),
        ("true}, n}", "true}, n, z: float*}", "arguments.z: a type, 'float*'; a tensor is a mapp"),
        ("arguments: {x:", "arguments: [x, y]\n  flops: {x:", "5: workload.arguments: must be a m"),
        (
            'kernel: "plain"',
            "kernel: plain<4, 5>",
            "'5>'; inside of braces YAML ends a value ",
        ),
        ("  flops: n", "  cooperative: 3", "9: workload.cooperative: must be true or false, not 3"),
        ("grid: [n, 1]", "cooperative: 1", "14: variants.list[2].cooperative: cooperative: must "),
        (
            "problems:",
            "build: {flags: [-Xptxas -dlcm=ca]}\nproblems:",
            "15: build.flags[0]: each argument of nvcc is an entry of its own: [-Xptxas, -dlcm=ca]",
        ),
        (
            "problems:",
            "build: {flags: [-gencode=arch=compute_80]}\nproblems:",
            "the architecture stands in `arch: sm_90`, beside `flags`",
        ),
        ("block: [1, 1]", "block: [1, b]", "14: variants.list[2].block: there is no 'b'"),
        ("  flops: n", "  flosp: n", "9: workload.flosp: unknown key; did you mean 'flops'?"),
        ("  source: scale.cu\n", "  command: ./a\n", "workload.arguments: unknown key"),
        ("  source: scale.cu\n", "  source: a\n  command: ./a\n", "2: workload: must be a file"),
        ("  source: scale.cu\n", "", "2: workload.source: no source: give it for the workload"),
    ],
)
def test_what_has_no_value_is_refused_with_its_line(planned, old, new, line):
    assert SPEC.count(old) == 1
    with pytest.raises(SpecError) as raised:
        planned(SPEC.replace(old, new))
    assert line in str(raised.value)


def test_braces_are_refused_with_their_line_where_the_architecture_is_known(tmp_path):
    path = tmp_path / "scale.yaml"
    path.write_text(SPEC.replace("scale<{width}>", "scale<{width>"))
    loaded = load_spec(path)
    with pytest.raises(SpecError, match=r"scale.yaml:4: workload.kernel: braces in"):
        make_plan(loaded, replace(space_of(loaded), arch="sm_90"))


LAUNCHES = """\
name: sums
workload:
  source: sums.cu
  arguments:
    x: {shape: [n]}
    part: {shape: [parts, n], scratch: true}
    p: {struct: {part, "sizes[0]": parts, scale: 1 / n, out: {shape: [n], output: true}}}
  grid: n
  block: threads
  reference: x
  launches:
    - {kernel: "split<{parts}>", block: 32, arguments: [x, part, n]}
    - {kernel: "join<{n}>", arguments: p}
variants:
  list:
    - {name: two, parts: 2, threads: 64}
    - {name: one, parts: 2, kernel: alone, block: 8}
    - name: own
      parts: 3
      block: 8
      launches: [{kernel: split<3>, arguments: "x, part, 2"}, {kernel: join3, arguments: p}]
problems: {matrix: {n: [256, 512]}}
"""


def test_launches_of_the_workload_and_of_a_variant(planned):
    plan, space = planned(LAUNCHES)
    recipes = {v.name: space.recipe(v.params).defines for v in plan.variants}
    assert {name: defines["PROFILER_KERNEL"] for name, defines in recipes.items()} == {
        "two n=256": "split<2>, join<256>",
        "two n=512": "split<2>, join<512>",
        "one": "alone",
        "own": "split<3>, join3",
    }
    assert recipes["own"]["PROFILER_ARGUMENTS"] == "3,1"
    assert recipes["one"]["PROFILER_STRUCTS"].startswith("PROFILER_STRUCT(0,3,p,")
    launched = {v.name: space.at_launch(v.params) for v in plan.variants}
    assert launched["own"]["launch"] == (
        "<<<n; 8; 0>>>(x, part, 2); <<<n; 8; 0>>>(part, parts, 1 / n, out)"
    )
    assert launched["own"]["parts"] == 3
    # A member that is set is what it is set to, although a tensor has its name.
    plan, space = planned(LAUNCHES.replace("{struct: {part, ", "{struct: {part, x: 3, "))
    launch = space.at_launch(plan.variants[-1].params)["launch"]
    assert launch.endswith("(part, 3, parts, 1 / n, out)")


def test_a_variant_of_several_launches_is_called_by_their_kernels(planned):
    plan, _ = planned(LAUNCHES.replace("name: own", "WIDE: 1").replace("{name: two, p", "{p"))
    assert {variant.name for variant in plan.variants} == {
        "split<2> + join<256>,threads=64",
        "split<2> + join<512>,threads=64",
        "one",
        "split<3> + join3,WIDE=1,parts=3,block=8",
    }


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("[x, part, n]", "[x, part, m]", "12: workload.launches[0].arguments: there is no 'm'"),
        ('"x, part, 2"', '"x, prt, 2"', "21: variants.list[2].launches[0].arguments: there is no"),
        ('"x, part, 2"', '"x, prt, 2"', "there is no 'prt'; did you mean 'part'?"),
        (
            "kernel: alone, block: 8",
            'kernel: alone, block: 8, arguments: "x, {shape: [n]}"',
            "17: variants.list[1].arguments: '{shape: [n]}' is no arithmetic",
        ),
        (
            "kernel: alone, block: 8",
            "kernel: alone, block: 8, arguments: {x: }",
            "17: variants.list[1].arguments: must be a single value",
        ),
        ("threads: 64", "thread: 64", "9: workload.block: there is no 'threads'; did you mean"),
        (
            "[parts, n], scratch",
            "[prats, n], scratch",
            "6: workload.arguments.part.shape: there is no 'prats'",
        ),
        ("[parts, n], scratch", "[0 * parts, n], scratch", "the shape [0, 256] has no elements"),
        ("scratch: true", "scratch: true, output: true", "6: workload.arguments.part: scratch: an"),
        ("scratch: true", "scratch: true, fill: normal", "6: workload.arguments.part: fill: scra"),
        ("sizes[0]", "sizes[i]", "7: workload.arguments.p: no field of a struct: 'sizes[i]'"),
        ("1 / n", "1 / m", "there is no 'm'"),
        ("out: {shape: [n]", "out: {shape: [m]", "7: workload.arguments.p.struct.out.shape: "),
        ("reference: x", "reference: part", "10: workload.reference: there is no 'part'"),
        ("parts: 3", "parts: 3\n      kernel: a", "leave out that of the variant"),
        ("block: 32", "blok: 32", "12: workload.launches[0].blok: unknown key; did you mean 'blo"),
    ],
)
def test_what_is_wrong_with_launches_is_refused_with_its_line(planned, old, new, line):
    assert LAUNCHES.count(old) == 1
    with pytest.raises(SpecError) as raised:
        planned(LAUNCHES.replace(old, new))
    assert line in str(raised.value)


def test_integers_have_no_random_reals(planned):
    mixed = SPEC.replace("16", "16, int32]").replace("dtype: float16", "dtype: [float16")
    planned(mixed)  # the default is that of the dtype at each problem
    text = mixed.replace("{shape: [n], ", "{shape: [n], fill: uniform, ")
    with pytest.raises(SpecError, match=r"5: workload.arguments.x.fill: int32 has no random reals"):
        planned(text)


def test_the_schema_takes_the_example():
    document = yaml.safe_load(EXAMPLE.read_text("utf-8"))
    assert document["workload"]["arguments"]["rows"] is None


def test_parameters_of_problems_in_a_kernel_make_a_variant_for_each_value(planned):
    text = SPEC.replace('"scale<{width}>"', '"scale<{dtype}, {width}>"').replace(
        "dtype: float16}}", "dtype: [float16, float32]}}"
    )
    plan, space = planned(text.replace("FAST: true}", 'when: "n > 2000", tags: mine}'))
    kernels = {v.name: space.recipe(v.params) for v in plan.variants if "torch" not in v.params}
    assert {name: recipe.defines["PROFILER_KERNEL"] for name, recipe in kernels.items()} == {
        "scale<__half, 4>,block_size=128": "scale<__half, 4>",
        "scale<float, 4>,block_size=128": "scale<float, 4>",
        'plain,width=1,grid="n, 1",block="1, 1",SPARE=null': "plain",
    }
    cells = [(c.variant.name.partition(",b")[0], dict(c.problem.params)) for c in plan.cells]
    assert [problem for name, problem in cells if name == "scale<float, 4>"] == [
        {"n": 5000, "dtype": "float32"}
    ]
    reasons = {exclusion.reason: exclusion.count for exclusion in plan.excluded}
    assert reasons["not applicable: needs n > 2000"] == 2
    assert [v.tags for v in plan.variants if "4>" in v.name] == [("mine",)] * 2


def test_parameters_of_problems_may_be_macros(planned):
    text = SPEC.replace("  flops: n\n", '  flops: n\n  define: {SIZE: "{n}", TYPE: "{dtype}"}\n')
    plan, space = planned(text)
    macros = [space.recipe(v.params).defines for v in plan.variants if "torch" not in v.params]
    sizes = sorted((defines["SIZE"], defines["TYPE"]) for defines in macros)
    assert sizes == [("1000", "__half"), ("1000", "__half"), ("5000", "__half"), ("5000", "__half")]
    assert len(plan.cells) == 2 * 3
    named, _ = planned(text.replace("{width: 4,", "{name: wide, width: 4,"))
    names = [variant.name for variant in named.variants if "wide" in variant.name]
    assert names == ["wide n=1000 float16", "wide n=5000 float16"]
