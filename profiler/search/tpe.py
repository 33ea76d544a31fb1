"""Optuna's tree-structured Parzen estimator (TPE) over valid, unseen configurations."""

from __future__ import annotations

import warnings
from types import ModuleType
from typing import Any

import numpy as np

from profiler.errors import EnvironmentUnusable
from profiler.search.history import History

LARGEST_SEED = 2**31


class TreeParzen:
    """TPE; a proposal that is invalid or seen is moved to the nearest unseen valid configuration.

    What is told of the moved one is what TPE learns from: told that its own proposal failed, it
    learns nothing of where valid configurations are. What is proposed and not measured yet,
    whoever proposed it, counts as slow meanwhile (Optuna's constant liar), so that proposals that
    are under way at a time are not all at one place.
    """

    def __init__(self, history: History, rng: np.random.Generator) -> None:
        self._optuna = optuna_module()
        self._history = history
        self._rng = rng
        self._names = {str(i): i for i in history.space.free}
        self._distributions = {name: self._distribution(i) for name, i in self._names.items()}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # some options are called experimental, by version
            sampler = self._optuna.samplers.TPESampler(
                seed=int(rng.integers(LARGEST_SEED)),
                n_startup_trials=1,
                multivariate=True,
                constant_liar=True,
            )
            self._study = self._optuna.create_study(sampler=sampler)
        self._pending: dict[int, int] = {}
        """Number of the running trial of each configuration that is not measured yet."""

    def ask(self) -> int:
        """The configuration that TPE samples, or the nearest valid one not yet proposed."""
        self._add_pending()
        trial = self._study.ask(self._distributions)
        # What is measured may be another configuration: it is added with its value by `tell`.
        self._study.tell(trial, state=self._optuna.trial.TrialState.FAIL)
        configuration = self._nearest(trial.params)
        self._history.see(configuration)
        return configuration

    def tell(self, configuration: int, value: float | None) -> None:
        """Add a trial; one that failed ranks behind every value."""
        states = self._optuna.trial.TrialState
        state = states.PRUNED if value is None else states.COMPLETE
        if configuration in self._pending:
            self._study.tell(self._pending.pop(configuration), value, state=state)
        else:
            self._add_trial(configuration, state, value)

    def _add_pending(self) -> None:
        """Add running trials of what was proposed since the last time and is not measured."""
        for configuration in map(int, self._history.pending):
            if configuration not in self._pending:
                self._pending[configuration] = len(self._study.get_trials(deepcopy=False))
                self._add_trial(configuration, self._optuna.trial.TrialState.RUNNING)

    def _add_trial(self, configuration: int, state: Any, value: float | None = None) -> None:
        codes = self._history.space.codes[configuration]
        self._study.add_trial(
            self._optuna.trial.create_trial(
                state=state,
                value=value,
                params={name: int(codes[i]) for name, i in self._names.items()},
                distributions=self._distributions,
            )
        )

    def _nearest(self, sample: dict[str, Any]) -> int:
        codes = [0] * len(self._history.space.parameters)
        for name, i in self._names.items():
            codes[i] = int(sample[name])
        return self._history.nearest_unseen(codes, self._rng)

    def _distribution(self, number: int) -> Any:
        parameter = self._history.space.parameters[number]
        codes = range(len(parameter.values))
        if parameter.is_ordered:
            return self._optuna.distributions.IntDistribution(0, codes[-1])
        return self._optuna.distributions.CategoricalDistribution(tuple(codes))


def optuna_module() -> ModuleType:
    """Optuna, silent about single trials; raises EnvironmentUnusable where it is not installed."""
    try:
        import optuna  # noqa: PLC0415 - an optional extra, and its import takes a second
    except ImportError:
        raise EnvironmentUnusable(
            "The strategies tpe and portfolio need Optuna, which is not installed.",
            remedy="Install it with: pip install 'kernel-profiler[search]'; or search with "
            "--strategy model.",
        ) from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    module: ModuleType = optuna
    return module
