"""Expands the `variants` and `problems` sections of a spec into variants and problems."""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from pydantic import ValidationError

from profiler.errors import SpecError
from profiler.kernels.arithmetic import Arithmetic, ExpressionError, parse
from profiler.kernels.cuda_file.description import CudaFile, placeholders
from profiler.model import ON_ZEROS, Exclusion, Params, Problem, Variant, slug
from profiler.planning.space import Space
from profiler.planning.spec import CudaWorkload, Item, LoadedSpec, Rule, VariantItem, did_you_mean
from profiler.planning.spec.source import FieldPath
from profiler.runner.experiment import MAX_COMBINATIONS

MAX_EXAMPLES = 3

_DOTS = re.compile(r"^\.+|\.+$|\.{2,}")
_PLAIN = re.compile(r"[A-Za-z0-9_-]+")
_NUMBER = re.compile(r"[-+.0-9]")


_NOTHING_SAID = VariantItem.model_construct()


@dataclass(frozen=True)
class Candidate:
    """Parameters that may become a variant or a problem."""

    params: Params
    field: FieldPath
    """Field of the spec that has the candidate."""
    name: str | None = None
    item: VariantItem = _NOTHING_SAID
    """Its item in a list of the spec."""
    only_at: Params | None = None
    """Values of the problems that its program is compiled for; None: all problems."""
    on_zeros: bool = False
    """Whether the candidate is a problem with zeros in its inputs."""

    @property
    def tolerance(self) -> dict[str, tuple[float, float]]:
        """Bounds of its own."""
        bounds = self.item.tolerance.items()
        return {dtype: (bound.absolute, bound.relative) for dtype, bound in bounds}

    @cached_property
    def condition(self) -> Arithmetic | None:
        """Condition under which the candidate can do a problem; None where it can do all."""
        return None if self.item.when is None else parse(self.item.when)

    def why_not(self, values: Params) -> str | None:
        """Why its own condition excludes a problem, whose values are in `values`; else None.

        Raises ExpressionError where the condition has no value.
        """
        if self.condition is None or self.condition.value(values):
            return None
        own_reason = self.item.reason if self.item.reason and not self.item.trust else ""
        return f"not applicable: {own_reason or f'needs {self.item.when}'}"


LeftOut = dict[str, list[str]]
"""What was left out, by reason, in the order in which the reasons came up. A reason that removes
nothing may be a mistake in the spec: those of rules are there from the beginning."""


def exclusions(stage: str, left_out: LeftOut) -> tuple[Exclusion, ...]:
    """Exclusions with their counts and first examples."""
    return tuple(
        Exclusion(reason, len(names), stage, tuple(names[:MAX_EXAMPLES]))
        for reason, names in left_out.items()
    )


@dataclass(frozen=True)
class Expanded:
    """Remaining variants and problems, and the excluded ones."""

    variants: tuple[Variant, ...]
    problems: tuple[Problem, ...]
    excluded: tuple[Exclusion, ...]
    aliases: Mapping[str, str]
    """Name of a merged variant → name of the variant that it was merged into."""
    left_out: Mapping[str, str]
    """Names of variants that a rule or check removed → why."""
    limited: Mapping[str, Candidate]
    """By id of the variants that cannot do every problem."""


def expand(loaded: LoadedSpec, space: Space) -> Expanded:
    """Expand lists, sets and matrices, merge equal parameters, and apply rules and checks.

    Raises `SpecError` where a set does not exist, a rule names a parameter that does not exist, two
    different variants have one name, or nothing is left.
    """
    experiment = loaded.experiment
    variants = _Stage(
        loaded=loaded,
        word="variant",
        section="variants",
        rules=experiment.variants.exclude,
        check=space.check_variant,
        name=lambda params: space.variant_name(params) or default_name(params),
    )
    problems = _Stage(
        loaded=loaded,
        word="problem",
        section="problems",
        rules=experiment.problems.exclude,
        check=space.check_problem,
        name=default_name,
    )
    kept_problems = problems.run(list(_problem_candidates(loaded)))
    candidates = _candidates_by_program(loaded, _variant_candidates(loaded, space), kept_problems)
    kept_variants = variants.run(list(candidates))
    _refuse_shared_parameters(loaded, kept_variants, kept_problems)
    keys = {"variant", *(key for _, candidate in kept_variants for key in candidate.params)}
    check_rule_keys(loaded, ("variants", "trust"), experiment.variants.trust, keys)
    return Expanded(
        variants=tuple(
            Variant(
                id=identify(name, candidate.params),
                name=name,
                params=candidate.params,
                note=candidate.item.note,
                tolerance=candidate.tolerance,
                tags=candidate.item.tags,
                env=candidate.item.env,
                trust=_trust(experiment.variants.trust, name, candidate),
            )
            for name, candidate in kept_variants
        ),
        problems=tuple(
            Problem(identify(name, candidate.params), name, candidate.params, candidate.on_zeros)
            for name, candidate in kept_problems
        ),
        excluded=(*variants.exclusions, *problems.exclusions),
        aliases=variants.aliases,
        left_out=variants.left_out,
        limited={
            identify(name, candidate.params): candidate
            for name, candidate in kept_variants
            if candidate.only_at or candidate.condition
        },
    )


def _trust(rules: Sequence[Rule], name: str, candidate: Candidate) -> str:
    """Why a variant is trusted: by its own entry, else the first rule; empty where it is not."""
    if candidate.item.trust:
        return candidate.item.reason
    rule = first_match(rules, {**candidate.params, "variant": name})
    return rule.reason if rule is not None else ""


Value = str | int | float | bool | None
Named = tuple[str, Candidate]


@dataclass
class _Stage:
    """Names, merges and excludes variants or, in the same way, problems."""

    loaded: LoadedSpec
    word: str
    section: str
    rules: Sequence[Rule]
    check: Callable[[Params], str | None]
    name: Callable[[Params], str]
    reasons: LeftOut = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)

    @property
    def exclusions(self) -> tuple[Exclusion, ...]:
        """Exclusions so far, one for each reason."""
        return exclusions(self.word, self.reasons)

    def run(self, candidates: Sequence[Candidate]) -> list[Named]:
        """Name, merge, apply rules and checks; refuse an empty result."""
        named_candidates = self._distinct_candidates(candidates)
        keys = {self.word, *(key for candidate in candidates for key in candidate.params)}
        check_rule_keys(self.loaded, (self.section, "exclude"), self.rules, keys)
        for rule in self.rules:
            self.reasons.setdefault(rule.label, [])
        remaining = [
            (name, candidate)
            for name, candidate in named_candidates
            if not self._is_dropped(name, candidate.params)
        ]
        if not remaining:
            raise nothing_left_error(self.loaded, (self.section,), self.section, self.exclusions)
        self._refuse_shared_names(remaining)
        return remaining

    def _distinct_candidates(self, candidates: Sequence[Candidate]) -> list[Named]:
        first: dict[object, Named] = {}
        for candidate in candidates:
            name = candidate.name or self.name(candidate.params)
            key = (_identity(candidate.params), frozenset(candidate.item.env.items()))
            if key in first:
                first_name = first[key][0]
                self.reasons.setdefault(f"same parameters as another {self.word}", []).append(name)
                self.aliases[name] = first_name
            else:
                first[key] = (name, candidate)
        return list(first.values())

    def _is_dropped(self, name: str, params: Params) -> bool:
        rule = first_match(self.rules, {**params, self.word: name})
        reason = rule.label if rule is not None else self.check(params)
        if reason is not None:
            self.reasons.setdefault(reason, []).append(name)
            self.left_out[name] = reason
        return reason is not None

    def _refuse_shared_names(self, named_candidates: Iterable[Named]) -> None:
        params_by_id: dict[str, Params] = {}
        for name, candidate in named_candidates:
            first_params = params_by_id.setdefault(
                identify(name, candidate.params), candidate.params
            )
            if first_params is not candidate.params:
                raise self.loaded.error(
                    candidate.field,
                    f"two different {self.section} are named '{name}': "
                    f"{default_name(first_params)} and {default_name(candidate.params)}",
                    remedy="Give them names that tell them apart.",
                )


def first_match(rules: Iterable[Rule], values: Params) -> Rule | None:
    """The first rule that matches these parameters."""
    return next((rule for rule in rules if rule.matches(values)), None)


def check_rule_keys(
    loaded: LoadedSpec, field_path: FieldPath, rules: Sequence[Rule], keys: Iterable[str]
) -> None:
    """Raise SpecError for a rule about an unknown parameter."""
    parameters = set(keys)
    for index, rule in enumerate(rules):
        for key in rule.when:
            if key not in parameters:
                raise loaded.error(
                    (*field_path, index, "when", key),
                    f"no such parameter here{did_you_mean(key, parameters)}",
                )


def nothing_left_error(
    loaded: LoadedSpec, field_path: FieldPath, section: str, excluded: Iterable[Exclusion]
) -> SpecError:
    """Error for rules and checks that leave nothing to measure."""
    reasons = "; ".join(
        f"{exclusion.reason} ({exclusion.count})" for exclusion in excluded if exclusion.count
    )
    return loaded.error(field_path, f"no {section} are left to measure: {reasons}")


def default_name(params: Params) -> str:
    """Name `block=128,vector=4` of parameters; ambiguous text is put in quotes."""
    return ",".join(f"{key}={_quoted_if_ambiguous(value)}" for key, value in params.items())


def value_text(value: str | int | float | bool | None) -> str:
    """A parameter's value as YAML would write it (without quotes)."""
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _quoted_if_ambiguous(value: str | int | float | bool | None) -> str:
    if not isinstance(value, str):
        return value_text(value)
    ambiguous = not value or value in ("null", "true", "false") or _NUMBER.match(value)
    return json.dumps(value, ensure_ascii=False) if ambiguous or set(value) & set(',="') else value


def _identity(params: Params) -> object:
    """Hashable identity of parameters; unlike in Python, 1, 1.0 and true differ."""
    return frozenset((key, type(value), value) for key, value in params.items())


def identify(name: str, params: Params) -> str:
    """Id of a variant or problem, made of its own name and parameters only.

    A name made of parameters has its commas turned into dots where that cannot be mistaken, which
    keeps the id readable. No id doubles the dots that join the halves of a cell id, or ends in one.
    """
    if name == default_name(params):
        values = [_quoted_if_ambiguous(value) for value in params.values()]
        if all(_PLAIN.fullmatch(value) for value in values):
            name = name.replace(",", ".")
    return slug(_DOTS.sub(lambda dots: "\0" * len(dots[0]), name))


def _variant_candidates(loaded: LoadedSpec, space: Space) -> Iterator[Candidate]:
    variants = loaded.experiment.variants
    yield from _from_list(variants.list or (), "variant", ("variants", "list"))
    yield from _from_sets(loaded, space)
    yield from _from_matrix(loaded, variants.matrix or (), ("variants", "matrix"))


def _candidates_by_program(
    loaded: LoadedSpec, candidates: Iterable[Candidate], problems: Sequence[Named]
) -> Iterator[Candidate]:
    """Variants of a `.cu` file, one for each program that problem parameters compile to.

    Such a variant has these parameters, too.
    """
    workload = loaded.experiment.workload
    for candidate in candidates:
        if not isinstance(workload, CudaWorkload) or "torch" in candidate.params:
            yield candidate
            continue
        try:
            compiled = _compiled_names(workload.description(loaded.base), candidate.params)
        except ExpressionError as error:
            raise loaded.error(candidate.field, str(error)) from error
        distinct_values: dict[object, dict[str, Value]] = {}
        for _, problem in problems:
            values = {name: problem.params[name] for name in compiled if name in problem.params}
            distinct_values.setdefault(_identity(values), values)
        for values in distinct_values.values():
            yield _compiled_for(candidate, values) if values else candidate


def _compiled_names(description: CudaFile, params: Params) -> tuple[str, ...]:
    """Names in a variant's kernels, functions and macros, without its own parameters."""
    texts = [*map(description.name_text, description.steps(params))]
    texts += [value for value in (description.define or {}).values() if isinstance(value, str)]
    names = (name for text in texts for name in _placeholders(text))
    return tuple(dict.fromkeys(name for name in names if name not in params))


def _compiled_for(candidate: Candidate, values: dict[str, Value]) -> Candidate:
    """A variant compiled for given values of problem parameters."""
    texts = (v if isinstance(v, str) else default_name({key: v}) for key, v in values.items())
    name = None if candidate.name is None else " ".join((candidate.name, *texts))
    return replace(candidate, params={**candidate.params, **values}, name=name, only_at=values)


def _placeholders(text: str) -> tuple[str, ...]:
    """Names in braces; empty where braces are wrong, which a later check reports with its line."""
    try:
        return placeholders(text)
    except ExpressionError:
        return ()


def _problem_candidates(loaded: LoadedSpec) -> Iterator[Candidate]:
    """Listed problems; a problem on zeros follows the same problem on normal inputs."""
    problems, kinds = loaded.experiment.problems, loaded.experiment.input_kinds
    candidates = [
        *_from_list(problems.list or (), "problem", ("problems", "list")),
        *_from_matrix(loaded, problems.matrix or (), ("problems", "matrix")),
    ]
    for candidate in candidates:
        if "normal" in kinds:
            yield candidate
        if "zeros" in kinds:
            if ON_ZEROS.keys() & candidate.params.keys():
                raise loaded.error(
                    candidate.field,
                    "problems have a parameter 'inputs' already",
                    remedy="Give it another name, or `inputs` of the experiment a text.",
                )
            name = None if candidate.name is None else f"{candidate.name} zeros"
            params = {**candidate.params, **ON_ZEROS}
            yield replace(candidate, params=params, name=name, on_zeros=True)


def _from_list(items: Sequence[Item], word: str, path: FieldPath) -> Iterator[Candidate]:
    for index, item in enumerate(items):
        # A bare name is a parameter too, or the workload could not tell one from the other.
        params = item.params or {word: item.name}
        of_variant = item if isinstance(item, VariantItem) else _NOTHING_SAID
        yield Candidate(params, (*path, index), item.name, of_variant)


def _from_sets(loaded: LoadedSpec, space: Space) -> Iterator[Candidate]:
    names = loaded.experiment.variants.sets
    sets = space.variant_sets() if names else {}
    for index, name in enumerate(names):
        path: FieldPath = ("variants", "sets", index)
        if name not in sets:
            hint = did_you_mean(name, sets) or "; its space defines none"
            raise loaded.error(path, f"the workload has no set '{name}'{hint}")
        for params in sets[name]:
            try:
                item = Item.model_validate({"params": params})
            except ValidationError as error:
                message = f"set '{name}': {params!r}: {error.errors()[0]['msg']}"
                raise loaded.error(path, message) from error
            yield Candidate(item.params, path)


def _from_matrix(
    loaded: LoadedSpec, grids: Sequence[Mapping[str, Sequence[Value]]], path: FieldPath
) -> Iterator[Candidate]:
    for index, grid in enumerate(grids):
        count = math.prod(len(values) for values in grid.values())
        if count > MAX_COMBINATIONS:
            raise loaded.error(
                (*path, index), f"{count} combinations are more than {MAX_COMBINATIONS}"
            )
        for combination in itertools.product(*grid.values()):
            yield Candidate(dict(zip(grid, combination, strict=True)), (*path, index))


def _refuse_shared_parameters(
    loaded: LoadedSpec, variants: Sequence[Named], problems: Sequence[Named]
) -> None:
    """Raise SpecError where variants and problems share a parameter name."""
    # Without those that come from the problems that a variant is compiled for.
    of_variants = {
        key
        for _, candidate in variants
        for key in candidate.params.keys() - set(candidate.only_at or ())
    }
    for side, other_names in ((variants, {"problem"}), (problems, {"variant", *of_variants})):
        for _, candidate in side:
            for key in (key for key in candidate.params if key in other_names):
                raise loaded.error(
                    candidate.field,
                    f"the name '{key}' is taken by the other of variants and problems; rename one",
                )
