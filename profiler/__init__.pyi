from profiler.python.run import Run as Run
from profiler.python.run import evaluate as evaluate
from profiler.python.run import load as load
from profiler.runner.capture.recording import capture as capture
from profiler.runner.capture.replay import CapturedCalls as CapturedCalls
from profiler.runner.experiment import Experiment as Experiment

__version__: str
