"""Parts, checks and exit codes of external commands in the experiment file."""

import pytest
import yaml

from profiler.errors import SpecError
from profiler.model import OrderedParts, RangeParts
from profiler.planning.plan import make_plan
from profiler.planning.space import space_of
from profiler.planning.spec import load_spec
from profiler.planning.spec.workloads import CommandWorkload

BY_ORDER = {"size": [128, 256], "launches": 51, "skip": 1, "take": 5}


@pytest.fixture
def plan(tmp_path):
    def plan_of(parts, page=None, **workload):
        document = {
            "name": "sgemm",
            "workload": {"command": "./sgemm {kernel}", "parts": parts, **workload},
            "variants": {"matrix": {"kernel": [1, 2]}},
            "page": page or {},
        }
        path = tmp_path / "spec.yaml"
        path.write_text(yaml.safe_dump(document), encoding="utf-8")
        loaded = load_spec(path)
        assert isinstance(loaded.experiment.workload, CommandWorkload)
        make_plan(loaded, space_of(loaded))
        return loaded.experiment.workload

    return plan_of


def test_both_ways_to_tell_parts_apart(plan):
    assert plan(BY_ORDER).parts.reading() == OrderedParts("size", (128, 256), 51, 1, 5)
    rest = plan({"size": [128], "launches": 51, "skip": 1}).parts.reading()
    assert rest == OrderedParts("size", (128,), 51, 1, 50)
    assert plan("nvtx").parts.reading() == RangeParts(".*")
    ranges = plan({"ranges": "regex:size=.*", "kernels": 2, "skip": 1, "take": 5}).parts.reading()
    assert ranges == RangeParts("size=.*", 2, 1, 5)


def test_pages_know_the_parameter_of_parts(plan):
    plan(BY_ORDER, page={"kind": "grid", "split": ["size"]})
    plan("nvtx", page={"kind": "grid", "split": ["whatever"]})
    with pytest.raises(SpecError, match="no problem has a parameter 'sise'; did you mean 'size'"):
        plan(BY_ORDER, page={"kind": "grid", "split": ["sise"]})


@pytest.mark.parametrize(
    ("parts", "workload", "message"),
    [
        ({"size": [1, 2]}, {}, "launches is missing"),
        ({"launches": 3}, {}, "needs a parameter with its values"),
        ({"size": [1], "lauches": 3}, {}, "did you mean 'launches'"),
        ({"size": [1, 1], "launches": 3}, {}, "has a value twice"),
        ({"size": [1], "launches": 3, "skip": 3}, {}, "need 4 launches of each part"),
        ({"ranges": "size=(", "kernels": 1}, {}, "not a regular expression"),
        ({"ranges": "a", "size": [1]}, {}, "parts by ranges have no size"),
        ({"size": [1], "launches": 3, "kernels": 1}, {}, "kernels belongs to parts by ranges"),
        ("nvxt", {}, "did you mean 'nvtx'"),
        ({"kernel": [1], "launches": 3}, {}, "have a parameter 'kernel' already"),
        (BY_ORDER, {"launch_count": 5}, "launch_count follows from parts"),
        (BY_ORDER, {"check": "./sgemm {kernal}"}, "did you mean 'kernel'"),
        (BY_ORDER, {"exit_code": 256}, "256"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(plan, parts, workload, message):
    with pytest.raises(SpecError) as caught:
        plan(parts, **workload)
    assert message in caught.value.message
    assert "spec.yaml:" in caught.value.message
