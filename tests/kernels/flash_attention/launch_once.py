"""Launch variants once each, on one small problem, for compute-sanitizer to watch.

Reads from stdin a JSON list of [parameters, path of the library].
"""

import json
import sys
from pathlib import Path

import torch

from flash_attention import workload

SEQ_LEN = 256

for params, library in json.load(sys.stdin):
    problem = {"seq_len": SEQ_LEN, "batch": 1, "heads": 16, "head_dim": params["d_head"]}
    inputs = workload.make_inputs(problem, torch.device("cuda"), seed=1)
    workload.prepare(params, problem, inputs, Path(library))()
    torch.cuda.synchronize()
