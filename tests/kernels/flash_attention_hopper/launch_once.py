"""Launch variants once each, on small problems, for compute-sanitizer to watch.

Reads from stdin a JSON list of [parameters, path of the library].
"""

import json
import sys
from pathlib import Path

import torch

from flash_attention_hopper import workload

for params, library in json.load(sys.stdin):
    for length in (1, 200, 385):
        problem = {"seq_len": length, "batch": 2, "heads": 3, "head_dim": params["d_head"]}
        problem["is_causal"] = params["causal"]
        inputs = workload.make_inputs(problem, torch.device("cuda"), seed=1)
        workload.prepare(params, problem, inputs, Path(library))()
        torch.cuda.synchronize()
