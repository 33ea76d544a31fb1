"""What a mask or a layout changes: medians of the best of each problem, and nothing else."""

from dataclasses import replace
from statistics import geometric_mean

import pytest
from recorded import RECORDINGS, findings_of_recording, summary_of

from profiler.findings.kinds.steps import contrasts


@pytest.mark.parametrize(
    ("name", "key", "before", "others"),
    [
        ("layouts", "layout", "contiguous", {"strided", "mixed", "padded", "transposed"}),
        ("hopper_causal", "is_causal", False, {True}),
    ],
)
def test_the_best_of_each_is_compared_with_the_best_of_its_like(name, key, before, others):
    findings = findings_of_recording(RECORDINGS / f"{name}.zip")
    found = contrasts(findings.ranking, findings.report.settings)
    assert {contrast.step.after for contrast in found} == others
    params = {problem.name: problem.params for problem in findings.programs.problems}
    best = {}
    for cell in summary_of(findings)["cells"]:
        duration = cell["metrics"].get("duration_ns", {})
        if duration.get("rank") == 1:
            value, *rest = sorted(params[cell["problem"]].items(), key=lambda item: item[0] != key)
            best[value[1], tuple(rest)] = duration["median"]
    for contrast in found:
        ratios = [
            median / best[before, rest]
            for (value, rest), median in best.items()
            if value == contrast.step.after
        ]
        assert contrast.ratio == pytest.approx(geometric_mean(ratios))
        assert len(contrast.ratios) == len(ratios) == len(best) // (len(others) + 1)


def test_flags_of_variants_are_judged_beside_it_and_captured_problems_are_not_asked_about():
    findings = findings_of_recording(RECORDINGS / "hopper_causal.zip")
    steps = {effect.step.parameter for effect in findings.parameter_steps}
    assert steps == {"heads_innermost", "kv_heads_first"}
    captured = replace(findings.report.settings, weights="calls")
    assert contrasts(findings.ranking, captured) == ()
