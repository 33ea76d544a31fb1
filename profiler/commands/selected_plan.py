"""The plan of the cells that `--only` names, as the spec or as a page calls them."""

from __future__ import annotations

from profiler.model import Plan
from profiler.planning.page_kinds import LADDER, PAGE_KINDS
from profiler.planning.plan import make_plan
from profiler.planning.space import Space
from profiler.planning.spec import LoadedSpec


def selected_plan(loaded: LoadedSpec, space: Space, only: str | None) -> Plan:
    """Plan of an experiment, or of a part; raises as `make_plan`."""
    plan = make_plan(loaded, space)
    if only is None:
        return plan
    from profiler.findings.variant_names import find_names

    # Labels are made of what differs among all variants: those of the page of the whole experiment.
    names = find_names(
        plan.variants,
        references={plan.baseline or "", *plan.references},
        ladder=LADDER in PAGE_KINDS[loaded.experiment.page.kind].finds,
    )
    labels = {variant.id: names.label(variant) for variant in plan.variants}
    return make_plan(loaded, space, only=only, labels=labels)
