from profiler.python.evaluate import evaluate as evaluate
from profiler.python.run import Run as Run
from profiler.python.run import load as load
from profiler.runner.experiment import Experiment as Experiment

__version__: str
