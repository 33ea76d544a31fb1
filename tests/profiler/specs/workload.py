"""Stands for a workload; the orchestrator must never import it."""

raise RuntimeError("the orchestrator imported the workload")
