"""The orchestrator: turns a YAML experiment into a measured, explained page.

Never imports torch and never touches CUDA; what needs them runs in the child process `runner`.
"""

__version__ = "0.1.0"
