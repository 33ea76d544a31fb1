from profiler.model import BuildResult, Variant
from profiler.sessions.builds.plan_builds import without_effect


def told(*programs_and_params):
    variants = [
        Variant(str(n), str(n), params) for n, (_, params) in enumerate(programs_and_params)
    ]
    builds = [
        BuildResult(str(n), ok=program is not None, program=program)
        for n, (program, _) in enumerate(programs_and_params)
    ]
    return [note.split("'")[1] for note in without_effect(variants, builds)]


def test_a_parameter_that_changes_no_program_is_named():
    rows = [("a", {"TILE": 16, "PAD": 0}), ("a", {"TILE": 16, "PAD": 1}), ("b", {"TILE": 32})]
    assert told(*rows, ("b", {"TILE": 32, "PAD": 1})) == ["PAD"]


def test_one_pair_that_differs_is_enough():
    rows = [("a", {"TILE": 16, "PAD": 0}), ("a", {"TILE": 16, "PAD": 1})]
    assert told(*rows, ("b", {"TILE": 32, "PAD": 0}), ("c", {"TILE": 32, "PAD": 1})) == []


def test_what_was_not_built_or_has_no_pair_says_nothing():
    assert told((None, {"TILE": 16}), (None, {"TILE": 32})) == []
    assert told(("a", {"TILE": 16})) == []
    assert told(("a", {"TILE": 16}), ("a", {"PAD": 1, "OTHER": 2})) == []
