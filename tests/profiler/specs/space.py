"""A space as a user would write it, beside the spec."""


def variant_name(params):
    short = "-".join(str(value) for value in params.values())
    return short.replace("online", "on")


def check_variant(params):
    return "not a power of two" if params.get("block") == 384 else None


def check_cell(variant_params, problem_params):
    if variant_params.get("rows") == 2 and problem_params.get("columns") == 16384:
        return "two long rows do not fit"
    return None


def variant_sets():
    return {
        "wide": [{"algorithm": "wide", "block": block} for block in (256, 384)],
        "odd": [{"algorithm": "wide", "block": [1, 2]}],
    }
