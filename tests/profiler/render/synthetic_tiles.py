"""A synthetic run whose variants have long names made of their parameters."""

import dataclasses

from synthetic_report import make_report, problems, without


def tile_report(count=14, sizes=4):
    """A run whose variants have long names made of their parameters, as of a space to tune."""
    report = without(
        make_report(variant_count=count, problem_list=problems()[:sizes]), kind="autotune"
    )
    rivals = [item for item in report.plan.variants if item.id != report.plan.baseline]
    renamed = {
        variant.id: dataclasses.replace(
            variant,
            name=f"(FP16, {64 * (1 + number % 3)}, {32 << number % 2}): async+swizzled+"
            f"load_{number}_tiles{'+buffer' if number % 2 else ''}",
            params={
                "dtype": "FP16",
                "tile_m": 64 * (1 + number % 3),
                "tile_n": 32 << number % 2,
                "async_copy": True,
                "load_tiles": number,
                "double_buffer": bool(number % 2),
            },
        )
        for number, variant in enumerate(rivals)
    }
    cells = tuple(
        dataclasses.replace(cell, variant=renamed.get(cell.variant.id, cell.variant))
        for cell in report.plan.cells
    )
    return dataclasses.replace(report, plan=dataclasses.replace(report.plan, cells=cells))
