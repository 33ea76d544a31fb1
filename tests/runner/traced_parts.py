"""What a trace says about the parts of a launch."""

from profiler.parse.nsys_attribution import NO_STACK


def paths_of_operations(found):
    """Each operation as the names of the ranges around it, outermost first, and its own."""
    names = found.ranges["name"].astype(object).to_numpy()
    rows = []
    for operation in found.operations.itertuples():
        path, stack = [operation.name], operation.stack
        while stack != NO_STACK:
            path.insert(0, names[found.stacks.loc[stack, "range"]])
            stack = found.stacks.loc[stack, "parent"]
        rows.append(tuple(path))
    return rows


def parts_of(found, visit, launch):
    """Names of the ranges inside one launch, in order, with the operations under each."""
    parts = {}
    for path in paths_of_operations(found):
        if path[:2] == (visit, f"launch={launch}"):
            parts.setdefault("/".join(path[2:-1]), []).append(path[-1])
    return parts
