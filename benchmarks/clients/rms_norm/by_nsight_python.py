"""The same cells by nsight-python, three runs of each; without a verdict and without why."""

import nsight
import rms_norm

CELLS = [
    (variant, columns)
    for columns in (1024, 4096, 16384)
    for variant in ("eager", "functional", "compiled", "liger", "own")
]
PREPARED = ("compiled", "liger")


@nsight.analyze.kernel(configs=CELLS, runs=3, combine_kernel_metrics=lambda a, b: a + b)
def cell(variant, columns):
    x, weight = (value.cuda() for value in rms_norm.normal_bfloat16(4096, columns))
    function = getattr(rms_norm, variant)
    launch = function(x, weight) if variant in PREPARED else lambda: function(x, weight)
    launch()
    with nsight.annotate("norm"):
        launch()


if __name__ == "__main__":
    print(cell().to_dataframe())
