"""Which variants have a colour of their own in the figures of a page."""

from types import SimpleNamespace

import pytest

from profiler.findings.ranking import figure_roles
from profiler.model import Variant

NAMES = (
    "best",
    "near",
    "nearer",
    "other_type",
    "cudnn",
    "mma_bf16",
    "mma_fp16",
    "flash",
    "xformers",
)
RANKS = {name: SimpleNamespace(variant=Variant(name, name, {})) for name in NAMES}


def roles(references, *, tunes=True):
    ranking = SimpleNamespace(
        ranks=list(RANKS.values()),
        best_rank=RANKS["best"],
        programs=SimpleNamespace(baseline=RANKS["flash"].variant, references=references),
        rival_groups=[[RANKS["best"], RANKS["near"]], [RANKS["other_type"]]],
        tunes=tunes,
    )
    return figure_roles(ranking)


@pytest.mark.parametrize(
    ("references", "coloured"),
    [
        ((), ("other_type", "near", "nearer")),
        (("cudnn",), ("other_type", "cudnn", "near")),
        (("cudnn", "mma_bf16", "mma_fp16"), ("other_type", "cudnn", "mma_bf16", "mma_fp16")),
        (
            ("cudnn", "mma_bf16", "mma_fp16", "xformers"),
            ("other_type", "cudnn", "mma_bf16", "mma_fp16"),
        ),
    ],
)
def test_leaders_of_groups_and_references_come_before_near_equals(references, coloured):
    series = {f"series-{number}": name for number, name in enumerate(coloured, start=1)}
    expected = {"best": "best", "baseline": "flash", **series}
    assert {role: variant for variant, role in roles(references).items()} == expected


def test_where_nothing_is_tuned_the_fastest_three_have_one():
    found = roles(("cudnn", "mma_bf16", "mma_fp16"), tunes=False)
    assert found == {
        "best": "best",
        "flash": "baseline",
        "near": "series-1",
        "nearer": "series-2",
        "other_type": "series-3",
    }
