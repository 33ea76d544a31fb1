"""One variant at three sizes by nsight-python, three runs of each; without a verdict or a why.

    python by_nsight_python.py VARIANT

A call for each variant, because all configurations of one must launch as many kernels.
"""

import sys

import nsight
import rms_norm

(VARIANT,) = sys.argv[1:]
SIZES = [(1024,), (4096,), (16384,)]
PREPARED = ("compiled", "liger")


@nsight.analyze.kernel(configs=SIZES, runs=3, combine_kernel_metrics=lambda a, b: a + b)
def cell(columns):
    x, weight = (value.cuda() for value in rms_norm.normal_bfloat16(4096, columns))
    function = getattr(rms_norm, VARIANT)
    launch = function(x, weight) if VARIANT in PREPARED else lambda: function(x, weight)
    launch()
    with nsight.annotate("norm"):
        launch()


if __name__ == "__main__":
    print(cell().to_dataframe())
