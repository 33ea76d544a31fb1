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
    learns nothing of where valid configurations are.
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
                constant_liar=False,
            )
            self._study = self._optuna.create_study(sampler=sampler)

    def ask(self) -> int:
        """The configuration that TPE samples, or the nearest valid one not yet proposed."""
        trial = self._study.ask(self._distributions)
        # What is measured may be another configuration: it is added with its value by `tell`.
        self._study.tell(trial, state=self._optuna.trial.TrialState.FAIL)
        configuration = self._nearest(trial.params)
        self._history.see(configuration)
        return configuration

    def tell(self, configuration: int, value: float | None) -> None:
        """Add a trial; one that failed ranks behind every value."""
        states = self._optuna.trial.TrialState
        codes = self._history.space.codes[configuration]
        self._study.add_trial(
            self._optuna.trial.create_trial(
                state=states.PRUNED if value is None else states.COMPLETE,
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
            "--strategy local.",
        ) from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    module: ModuleType = optuna
    return module
