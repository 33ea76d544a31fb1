"""The same launches by `triton.testing.do_bench`, as libraries' own benchmarks take them."""

import rms_norm
import torch
from triton.testing import do_bench

for columns in (1024, 4096, 16384):
    x, weight = (value.cuda() for value in rms_norm.normal_bfloat16(4096, columns))
    launches = {
        "eager": lambda x=x, weight=weight: rms_norm.eager(x, weight),
        "functional": lambda x=x, weight=weight: rms_norm.functional(x, weight),
        "compiled": rms_norm.compiled(x, weight),
        "liger": rms_norm.liger(x, weight),
        "own": lambda x=x, weight=weight: rms_norm.own(x, weight),
    }
    for name, launch in launches.items():
        median, low, high = do_bench(launch, quantiles=[0.5, 0.2, 0.8])
        print(f"{columns:>6} {name:<10} {1e3 * median:8.1f} us [{1e3 * low:.1f}, {1e3 * high:.1f}]")
torch.cuda.synchronize()
