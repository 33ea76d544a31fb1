"""Labels of variants: short, unique, made of what differs; plans of recordings as examples."""

from pathlib import Path

import pytest

from profiler.findings.variant_names import LONGEST_LABEL, LONGEST_PLAIN, find_names
from profiler.model import Variant
from profiler.run_folder.archive import open_run
from profiler.run_folder.documents import read_json

RECORDINGS = Path(__file__).parents[3] / "experiments/recordings"
LADDERS = ("progression", "hopper")


def names_of_recording(name):
    plan = read_json(open_run(RECORDINGS / f"{name}.zip").path / "plan.json.gz")
    fields = {cell["variant"]["id"]: cell["variant"] for cell in plan["cells"]}
    variants = [
        Variant(item["id"], item["name"], item["params"], item["note"]) for item in fields.values()
    ]
    references = [plan["baseline"], *plan["references"]]
    return variants, find_names(variants, references=references, ladder=name in LADDERS)


def named(*variants, **options):
    """Labels of variants, given as (name, parameters[, note])."""
    made = [
        Variant(f"v{number}", name, params, *note)
        for number, (name, params, *note) in enumerate(variants)
    ]
    names = find_names(made, **options)
    return [names.label(variant) for variant in made]


def long(text):
    return f"a_function_with_a_long_name({text})"


@pytest.mark.parametrize("name", sorted(path.stem for path in RECORDINGS.glob("*.zip")))
def test_labels_of_a_recording_are_short_and_no_two_are_equal(name):
    variants, names = names_of_recording(name)
    labels = [names.label(variant) for variant in variants]
    assert len(set(labels)) == len(variants)
    assert max(map(len, labels)) <= LONGEST_LABEL
    assert [names.name_of(variant).full for variant in variants] == [item.name for item in variants]


def test_a_grid_of_configurations_is_named_by_what_differs():
    variants, names = names_of_recording("autotune")
    by_full = {variant.name: variant for variant in variants}
    best = by_full["(BF16, 128, 128, 64, 4): async+eager+swizzled+load_2_2_2_tiles+opt_softmax"]
    assert names.label(best) == "BF16 \u00b7 128\u00d764 \u00b7 2/2/2 \u00b7 opt-softmax"
    assert names.name_of(best).chips[1] == "128\u00d764"
    assert names.label(by_full["sdpa_cudnn"]) == "sdpa_cudnn"
    assert not names.name_of(by_full["sdpa_cudnn"]).chips
    shared = list(names.shared_chips)
    assert shared == ["d_head 128", "4 warps", "async", "eager", "swizzled"]
    assert names.chip_keys[:2] == ("dtype", "B_r\u00d7B_c")
    assert names.from_parameters
    assert len(names.family) == 80


def test_flags_that_most_have_are_said_where_they_are_missing():
    variants, names = names_of_recording("async_copy")
    labels = [names.label(variant) for variant in variants]
    assert labels[1:5] == [
        "BF16 \u00b7 all on",
        "BF16 \u00b7 no eager",
        "BF16 \u00b7 no async \u00b7 no eager",
        "BF16 \u00b7 no swizzled",
    ]
    assert list(names.usual_flags) == ["async", "eager", "swizzled", "buffer"]
    assert "B_r\u00d7B_c 128\u00d764" in list(names.shared_chips)


def test_versions_of_a_ladder_say_number_and_note():
    variants, names = names_of_recording("progression")
    labels = {variant.name: names.label(variant) for variant in variants}
    assert labels["step-01"] == "1: base: asynchronous copies only"
    assert labels["step-13"] == "13: K and V from the last block\u2026"
    assert labels["sdpa_flash"] == "sdpa_flash"
    assert not names.from_parameters


@pytest.mark.parametrize(
    ("versions", "labels"),
    [
        ([("v1", {}, "naive"), ("v2", {}, "tiled")], ["1: naive", "2: tiled"]),
        ([("v1", {}), ("v2", {}, "tiled")], ["v1", "2: tiled"]),
        ([("naive", {}, "one"), ("v2", {}, "tiled")], ["naive", "v2"]),
        ([("a1", {}, "one"), ("b1", {}, "tiled")], ["a1", "b1"]),
        (
            [("v1", {}, "x" * 40), ("v2", {}, "y" * 40)],
            [f"1: {'x' * 31}\u2026", f"2: {'y' * 31}\u2026"],
        ),
        ([("v1", {}, "first the queries, then the keys and the values")], ["1: first the queries"]),
    ],
)
def test_numbers_of_a_ladder(versions, labels):
    assert named(*versions, ladder=True) == labels


def test_short_names_stay():
    assert named(("eager", {"implementation": "a"}), ("warp-r4-v1", {"rows": 4})) == [
        "eager",
        "warp-r4-v1",
    ]


def test_default_names_say_what_differs():
    params = [{"block_size": size, "n_stages": 1, "vector": True} for size in (128, 256)]
    texts = [",".join(f"{key}={value}" for key, value in item.items()) for item in params]
    assert all(len(text) > LONGEST_PLAIN for text in texts)
    names = find_names(
        [Variant(text, text, item) for text, item in zip(texts, params, strict=True)]
    )
    assert [name.label for name in names.by_variant.values()] == [
        "block_size 128",
        "block_size 256",
    ]
    assert list(names.shared_chips) == ["1 stage", "vector"]


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        (("BLOCK_M", "BLOCK_N", "BLOCK_K"), "1\u00d72\u00d73"),
        (("dim0", "dim1", "dim2"), "1\u00d72\u00d73"),
        (("q_tiles", "k_tiles", "v_tiles"), "1/2/3"),
        (("num_warps", "num_stages", "num_ctas"), "1 warp \u00b7 2 stages \u00b7 3 ctas"),
        (("rows", "columns", "depth"), "rows 1 \u00b7 columns 2 \u00b7 depth 3"),
    ],
)
def test_numbers_that_belong_together(keys, text):
    first, second = dict(zip(keys, (1, 2, 3), strict=True)), dict(zip(keys, (4, 5, 6), strict=True))
    assert named((long("1, 2, 3"), first), (long("4, 5, 6"), second))[0] == text


def test_a_name_that_says_more_than_its_parameters_keeps_its_words():
    labels = named(
        ("the attention of the old library", {"n": 1}),
        ("the attention of the new library", {"n": 2}),
    )
    assert labels == ["\u2026 old \u2026", "\u2026 new \u2026"]
    assert named(("the kernel of the old library", {}), ("the kernel of the new library", {})) == [
        "\u2026 old \u2026",
        "\u2026 new \u2026",
    ]


def test_no_two_labels_are_equal():
    """Parameters that lack what differs, names that are equal to begin with, or look it."""
    params = {"tile": 64}
    labels = named(
        (long("64, fast"), params),
        (long("64, slow"), params),
        ("same name", params),
        ("same  name", {}),
        ("tile 64", {}),
        (long("64"), {"tile": 64, "fast": True}),
    )
    assert len(set(labels)) == len(labels)
    assert labels[2:4] == ["same name (#3)", "same name (#4)"]


def test_a_label_that_another_begins_with_keeps_what_tells_it_apart():
    kinds = ("Int8DynamicActivationConfig", "Float8DynamicActivationFloat8WeightConfig")
    labels = named(
        *(
            (f"quantized kind={kind} compiled={on}", {"kind": kind, "compiled": on})
            for kind in kinds
            for on in (False, True)
        )
    )
    assert labels[2:] == [kinds[1], "Float8DynamicActiv\u2026Float8WeightConfig \u00b7 compiled"]


def test_a_single_long_name_is_cut_between_words():
    (label,) = named(("one very long name of a single variant that nobody can compare", {"n": 1}))
    assert label == "one very long name of a single variant\u2026"


def test_a_reference_with_the_parameters_of_the_others_is_one_of_them():
    variants = [
        Variant(f"v{size}", long(f"{size}, {rows}"), {"size": size, "rows": rows})
        for size, rows in ((1, 8), (2, 8), (3, 8))
    ]
    names = find_names(variants, references=["v1"])
    assert names.label(variants[0]) == "size 1"
    assert names.family == {"v1", "v2", "v3"}


def test_where_keys_are_too_long_neighbouring_numbers_are_read_together():
    """192 rows are what three consumers have: no parameter, and yet it says nothing else."""
    variants, names = names_of_recording("hopper_autotune")
    by_full = {variant.name: variant for variant in variants}
    flags = "producer+overlap+ping_pong+lazy_rescale+tensor_store+persistent"
    best = by_full[f"(BF16, 128, 192, 64, 3): {flags}"]
    assert names.label(best) == "BF16 \u00b7 3/64/3 \u00b7 ping-pong \u00b7 persistent"
    assert names.chip_keys == ("dtype", "consumers/B_c/stages", "ping-pong", "persistent")
    assert names.name_of(best).chips[1] == "3/64/3"


def test_what_a_shorter_parameter_determines_is_left_out_where_labels_would_be_too_long():
    grids = {
        "gelu_forward_kernel1": "ceil_div(elements, threads)",
        "gelu_forward_kernel2": "ceil_div(elements, 8 * threads)",
    }
    all_params = [
        {"kernel": kernel, "threads": threads, "grid": grid, "stages": 2}
        for kernel, grid in grids.items()
        for threads in (32, 256)
    ]
    variants = [("{kernel},threads={threads},grid={grid}".format(**p), p) for p in all_params]
    names = find_names([Variant(name, name, params) for name, params in variants])
    assert [name.label for name in names.by_variant.values()] == [
        f"{kernel} \u00b7 threads {threads}" for kernel in grids for threads in (32, 256)
    ]
    assert list(names.shared_chips) == ["stages 2"]  # not the grid of the first


def test_digests_of_what_launches_a_revision_are_in_no_label():
    labels = named(
        *(
            (long(f"pieces={pieces} {commit}"), {"revision": commit, "launcher": digest} | pieces)
            for commit, digests in (("83db67c258", "ab"), ("8f166ae0bf", "cd"))
            for digest, pieces in zip(digests, ({"pieces": 2}, {"pieces": 4}), strict=True)
        )
    )
    assert labels[:2] == ["83db67c258 \u00b7 pieces 2", "83db67c258 \u00b7 pieces 4"]


def test_beside_short_names_long_ones_keep_their_words():
    labels = named(
        ("192x80", {"rows": 192, "masked": False}),
        ("masked-192x80", {"rows": 192, "masked": True}),
        ("masked-192x80-heads-innermost", {"rows": 192, "masked": True, "heads_innermost": True}),
    )
    assert labels == ["192x80", "masked-192x80", "masked-192x80-heads-innermost"]


def test_a_word_that_all_long_names_have_stays_where_leaving_it_out_saves_little():
    kernels = ("parent", "tail_parent", "fire_parent")
    functions = [
        (f"dynamic kernel={kernel}", {"function": "dynamic", "kernel": kernel})
        for kernel in kernels
    ]
    assert named(("plain", {"function": "plain"}), *functions) == [
        "plain",
        *(name for name, _ in functions),
    ]
