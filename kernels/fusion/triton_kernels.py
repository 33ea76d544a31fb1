"""The hand-written kernels. Importing this module needs Triton; `triton_launch.py` starts them.

All work in float32 whatever the type of the tensors is, and round once at the end. Offsets of rows
are 64-bit: a matrix of 65536 x 65536 has more elements than 32 bits can count.
"""
# mypy: ignore-errors
# ruff: noqa: N803, PLR0913, PLR0917
# The body of a kernel is Triton's language, which only looks like Python; its constants are
# arguments, and every pointer and stride is one too.

import triton
import triton.language as tl

from fusion import eager

EPSILON = tl.constexpr(eager.EPSILON)
GELU_SCALE = tl.constexpr(eager.GELU_SCALE)
GELU_CUBIC = tl.constexpr(eager.GELU_CUBIC)


@triton.jit
def pointwise_chain(source, target, elements, BLOCK: tl.constexpr):
    """One program per BLOCK consecutive elements."""
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < elements
    x = tl.load(source + offsets, mask=inside).to(tl.float32)
    y = tl.cos(x)
    x = x * y
    y = tl.maximum(x, y)
    tl.store(target + offsets, x + y, mask=inside)


@triton.jit
def softmax_rows(source, target, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """ROWS whole rows per program, held in registers: each element is read and written once."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, COLUMNS)
    offsets = row.to(tl.int64)[:, None] * columns + column[None, :]
    inside = (row < rows)[:, None] & (column < columns)[None, :]
    x = tl.load(source + offsets, mask=inside, other=-float("inf")).to(tl.float32)
    exponentials = tl.exp(x - tl.max(x, axis=1)[:, None])
    inverse = 1.0 / tl.sum(exponentials, axis=1)
    result = exponentials * inverse[:, None]
    tl.store(target + offsets, result, mask=inside)


@triton.jit
def softmax_wide(source, target, columns, COLUMNS: tl.constexpr):
    """One row per program, in pieces: once for maximum and sum, and once for the result.

    Every lane keeps a maximum and a sum of its own, so that the loop needs no exchange.
    """
    start_of_row = tl.program_id(0).to(tl.int64) * columns
    column = tl.arange(0, COLUMNS)
    largest = tl.full([COLUMNS], -float("inf"), tl.float32)
    total = tl.zeros([COLUMNS], tl.float32)
    for start in range(0, columns, COLUMNS):
        inside = start + column < columns
        x = tl.load(
            source + start_of_row + start + column,
            mask=inside,
            other=-float("inf"),
            eviction_policy="evict_last",
        ).to(tl.float32)
        new_largest = tl.maximum(largest, x)
        # A lane that saw nothing but -inf must not make a NaN of -inf - -inf.
        shift = tl.where(new_largest == -float("inf"), 0.0, new_largest)
        total = total * tl.exp(largest - shift) + tl.exp(x - shift)
        largest = new_largest
    row_largest = tl.max(largest, axis=0)
    inverse = 1.0 / tl.sum(total * tl.exp(largest - row_largest), axis=0)
    for start in range(0, columns, COLUMNS):
        inside = start + column < columns
        x = tl.load(
            source + start_of_row + start + column, mask=inside, eviction_policy="evict_first"
        ).to(tl.float32)
        result = tl.exp(x - row_largest) * inverse
        tl.store(target + start_of_row + start + column, result, mask=inside)


@triton.jit
def layer_norm_rows(
    source, weight, bias, target, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    """ROWS whole rows per program, held in registers; the variance is that around the mean.

    The mean is a rounded one. What is left of it shows in the sum of the distances and is taken
    off again (the corrected two-pass algorithm: Chan, Golub and LeVeque, 1983). Without that, a row
    of one large value would be the rounding error of its mean, blown up by a variance of 0.
    """
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, COLUMNS)
    in_row = column < columns
    offsets = row.to(tl.int64)[:, None] * columns + column[None, :]
    inside = (row < rows)[:, None] & in_row[None, :]
    # Past L1, so that weight and bias, which every row needs, can stay there.
    x = tl.load(source + offsets, mask=inside, other=0.0, cache_modifier=".cg").to(tl.float32)
    mean = tl.sum(x, axis=1) / columns
    centred = tl.where(inside, x - mean[:, None], 0.0)
    mean_error = tl.sum(centred, axis=1) / columns
    variance = tl.sum(centred * centred, axis=1) / columns - mean_error * mean_error
    scale = tl.rsqrt(tl.maximum(variance, 0.0) + EPSILON)
    gain = tl.load(weight + column, mask=in_row).to(tl.float32)
    shift = tl.load(bias + column, mask=in_row).to(tl.float32)
    result = (centred - mean_error[:, None]) * scale[:, None] * gain[None, :] + shift[None, :]
    tl.store(target + offsets, result, mask=inside)


@triton.jit
def layer_norm_wide(source, weight, bias, target, columns, COLUMNS: tl.constexpr):
    """One row per program, in pieces: once for mean and variance, and once for the result.

    Every lane keeps the mean and the squared distances of what it saw (Welford), and they are put
    together after the loop: sums of squares would lose what the mean is large against. The mean is
    corrected as in `layer_norm_rows`.
    """
    start_of_row = tl.program_id(0).to(tl.int64) * columns
    column = tl.arange(0, COLUMNS)
    count = tl.zeros([COLUMNS], tl.float32)
    mean = tl.zeros([COLUMNS], tl.float32)
    squares = tl.zeros([COLUMNS], tl.float32)
    pieces = 0.0
    for start in range(0, columns, COLUMNS):
        inside = start + column < columns
        x = tl.load(
            source + start_of_row + start + column,
            mask=inside,
            other=0.0,
            eviction_policy="evict_last",
        ).to(tl.float32)
        # The same for every lane that is still inside.
        pieces += 1.0
        distance = tl.where(inside, x - mean, 0.0)
        mean += distance / pieces
        squares += distance * tl.where(inside, x - mean, 0.0)
        count += inside.to(tl.float32)
    row_mean = tl.sum(mean * count, axis=0) / columns
    between = mean - row_mean
    mean_error = tl.sum(count * between, axis=0) / columns
    variance = (
        tl.sum(squares + count * between * between, axis=0) / columns - mean_error * mean_error
    )
    scale = tl.rsqrt(tl.maximum(variance, 0.0) + EPSILON)
    for start in range(0, columns, COLUMNS):
        inside = start + column < columns
        x = tl.load(
            source + start_of_row + start + column, mask=inside, eviction_policy="evict_first"
        ).to(tl.float32)
        gain = tl.load(weight + start + column, mask=inside).to(tl.float32)
        shift = tl.load(bias + start + column, mask=inside).to(tl.float32)
        result = (x - row_mean - mean_error) * scale * gain + shift
        tl.store(target + start_of_row + start + column, result, mask=inside)


@triton.jit
def bias_dropout_add(
    source,
    residual,
    bias,
    target,
    rows,
    columns,
    source_row,
    source_column,
    residual_row,
    residual_column,
    target_row,
    target_column,
    BIAS_BY_ROW: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """One tile per program, with any strides. The bias belongs to columns, or to rows."""
    across = tl.cdiv(columns, COLUMNS)
    tile = tl.program_id(0)
    row = (tile // across) * ROWS + tl.arange(0, ROWS)
    column = (tile % across) * COLUMNS + tl.arange(0, COLUMNS)
    inside = (row < rows)[:, None] & (column < columns)[None, :]
    down, right = row.to(tl.int64)[:, None], column.to(tl.int64)[None, :]
    x = tl.load(source + down * source_row + right * source_column, mask=inside).to(tl.float32)
    addend = tl.load(residual + down * residual_row + right * residual_column, mask=inside)
    if BIAS_BY_ROW:
        shift = tl.load(bias + row, mask=row < rows).to(tl.float32)[:, None]
    else:
        shift = tl.load(bias + column, mask=column < columns).to(tl.float32)[None, :]
    # Not in training, so that dropout passes everything on.
    result = addend.to(tl.float32) + (x + shift)
    tl.store(target + down * target_row + right * target_column, result, mask=inside)


@triton.jit
def bias_gelu(source, bias, target, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """One tile per program. (1 + tanh(u)) / 2 is the logistic function of 2 u."""
    across = tl.cdiv(columns, COLUMNS)
    tile = tl.program_id(0)
    row = (tile // across) * ROWS + tl.arange(0, ROWS)
    column = (tile % across) * COLUMNS + tl.arange(0, COLUMNS)
    inside = (row < rows)[:, None] & (column < columns)[None, :]
    offsets = row.to(tl.int64)[:, None] * columns + column[None, :]
    x = tl.load(source + offsets, mask=inside).to(tl.float32)
    y = x + tl.load(bias + column, mask=column < columns).to(tl.float32)[None, :]
    inner = GELU_SCALE * y * (1.0 + GELU_CUBIC * y * y)
    result = y / (1.0 + tl.exp(-2.0 * inner))
    tl.store(target + offsets, result, mask=inside)
