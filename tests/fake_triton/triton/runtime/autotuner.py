"""The autotuner and heuristics of the stand-in, with the fields of Triton 3's."""

import time
from dataclasses import dataclass, field


@dataclass(eq=False)
class Config:
    kwargs: dict = field(default_factory=dict)
    num_warps: int = 4
    num_stages: int = 3


class Tuner:
    def __getitem__(self, grid):
        return lambda *args, **settings: self.run(*args, grid=grid, **settings)


class Autotuner(Tuner):
    """Runs the configuration that took least when the values of its keys were first seen."""

    def __init__(self, fn, configs, key):
        self.fn = self.base_fn = fn
        while hasattr(self.base_fn, "fn"):
            self.base_fn = self.base_fn.fn
        self.arg_names, self.configs, self.keys, self.cache = fn.arg_names, configs, key, {}

    def run(self, *args, **settings):
        named = dict(zip(self.arg_names, args, strict=False))
        key = tuple(named[name] for name in self.keys)
        if key not in self.cache:
            self.configs_timings = {c: self._time(c, args, settings) for c in self.configs}
            self.cache[key] = min(self.configs_timings, key=lambda c: self.configs_timings[c][0])
        self.best_config = self.cache[key]
        return self._run(self.best_config, args, settings)

    def _run(self, config, args, settings):
        return self.fn.run(*args, num_warps=config.num_warps, **settings, **config.kwargs)

    def _time(self, config, args, settings):
        began = time.perf_counter()
        self._run(config, args, settings)
        return [(time.perf_counter() - began) * 1e3] * 3


class Heuristics(Tuner):
    """Gives constants that depend on the arguments."""

    def __init__(self, fn, values):
        self.fn, self.arg_names, self.values = fn, fn.arg_names, values

    def run(self, *args, **settings):
        named = {**dict(zip(self.arg_names, args, strict=False)), **settings}
        made = {name: value(named) for name, value in self.values.items()}
        return self.fn.run(*args, **settings, **made)
