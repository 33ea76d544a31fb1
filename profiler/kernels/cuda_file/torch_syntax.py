"""Torch expressions of experiment files: `x.T.contiguous()`, `softmax(x, dim=-1)`; no torch.

An expression is walked over its syntax tree: names of tensors and parameters, numbers, operators,
subscripts, and the functions and methods that are listed here. Nothing else is reached from it.
Functions in a user's file are named: `reference.py:transpose`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches

from profiler.kernels.arithmetic import SIZES, ExpressionError, syntax_tree

MAX_CHARACTERS = 2000

_BOTH = """abs acos all amax amin any argmax argmin argsort asin atan atan2 bincount
    bitwise_and bitwise_not bitwise_or bitwise_xor bmm broadcast_to ceil chunk clamp conj cos
    cosh count_nonzero cummax cummin cumprod cumsum diagonal diff div dot eq erf erfc erfinv exp
    exp2 expm1 flatten flip floor floor_divide fmax fmin fmod frac gather ge gt hypot index_add
    index_copy index_fill index_put index_reduce index_select isfinite isinf isnan kthvalue le
    lerp log log10 log1p log2 logaddexp logcumsumexp logical_and logical_not logical_or
    logsumexp lt masked_fill masked_scatter masked_select matmul max maximum mean median min
    minimum mm movedim mul mv nan_to_num nanmean nansum narrow ne neg nonzero norm outer permute
    pow prod reciprocal relu remainder repeat_interleave reshape roll round rsqrt scatter
    scatter_add scatter_reduce select sigmoid sign signbit sin sinh softmax sort split sqrt
    square squeeze std sub sum swapaxes take take_along_dim tan tanh tile topk trace transpose
    tril triu trunc unbind unflatten unsqueeze var where"""
_FUNCTIONS = """addmm arange baddbmm bucketize cat cdist concat cross einsum eye full
    full_like histc hstack kron linspace log_softmax meshgrid ones ones_like searchsorted
    segment_reduce stack std_mean tensordot var_mean vstack zeros zeros_like"""
_NEURAL = """avg_pool1d avg_pool2d binary_cross_entropy_with_logits conv1d conv2d conv3d
    conv_transpose2d cosine_similarity cross_entropy elu embedding fold gelu glu grid_sample
    group_norm hardswish hardtanh huber_loss instance_norm interpolate kl_div l1_loss layer_norm
    leaky_relu linear log_softmax logsigmoid max_pool1d max_pool2d mish mse_loss nll_loss
    normalize one_hot pad pixel_shuffle prelu relu6 rms_norm scaled_dot_product_attention selu
    silu smooth_l1_loss softmin softplus unfold"""
_METHODS = """argwhere bfloat16 bool clone contiguous cpu double expand expand_as float half
    int long numel repeat short size t to type_as unfold view view_as"""

FUNCTIONS = frozenset((*_BOTH.split(), *_FUNCTIONS.split()))
"""Functions of `torch`, with an optional `torch.` prefix."""
NEURAL = frozenset(_NEURAL.split())
"""Functions of `torch.nn.functional`, with an optional `F.` prefix."""
METHODS = frozenset((*_BOTH.split(), *_METHODS.split())) - {"where"}
"""Methods of tensors."""
ATTRIBUTES = frozenset({"T", "mT", "H", "mH", "real", "imag", "shape", "values", "indices"})

_NOT_OF_TENSORS = (ast.In, ast.NotIn, ast.Is, ast.IsNot)
_MODULES = ("torch", "F", "torch.nn.functional")
_NODES = (
    *(
        ast.BinOp,
        ast.UnaryOp,
        ast.Compare,
        ast.IfExp,
        ast.Subscript,
        ast.Slice,
        ast.Tuple,
        ast.List,
    ),
    *(ast.operator, ast.unaryop, ast.cmpop, ast.expr_context),
)


@dataclass(frozen=True, eq=False)
class TorchSyntax:
    """A parsed expression that uses only listed functions and methods."""

    names: frozenset[str]
    """Tensors and parameters that the expression needs."""
    root: ast.expr


def parse_torch(text: str) -> TorchSyntax:
    """Syntax of an expression; raises ExpressionError for any unlisted function or method."""
    root = syntax_tree(text, "expression", most_characters=MAX_CHARACTERS)
    return TorchSyntax(frozenset(_names(root)), root)


def function_named(node: ast.expr) -> tuple[str, str] | None:
    """Module (`torch` or `torch.nn.functional`) and name of a function; None for a method."""
    if isinstance(node, ast.Name):
        module, name = "", node.id
    elif isinstance(node, ast.Attribute) and ast.unparse(node.value) in _MODULES:
        module, name = ast.unparse(node.value), node.attr
    else:
        return None
    if name in FUNCTIONS and module in ("", "torch"):
        return "torch", name
    if name in NEURAL and module != "torch":
        return "torch.nn.functional", name
    raise ExpressionError(_unlisted_error("function", name, FUNCTIONS | NEURAL))


def _names(node: ast.AST) -> Iterator[str]:
    """Names that a node needs; raises ExpressionError for unlisted syntax."""
    if isinstance(node, ast.Name):
        yield node.id
    elif isinstance(node, ast.Attribute):
        yield from _attribute_names(node)
    elif isinstance(node, ast.Call):
        yield from _call_names(node)
    elif isinstance(node, ast.Constant):
        if not isinstance(node.value, str | int | float | None):
            raise ExpressionError(f"'{ast.unparse(node)}' is no number and no text")
    elif isinstance(node, ast.Compare) and not _compares_two(node):
        raise ExpressionError(f"'{ast.unparse(node)}' is not allowed: compare two values")
    elif isinstance(node, _NODES):
        for part in ast.iter_child_nodes(node):
            yield from _names(part)
    else:
        raise ExpressionError(f"'{ast.unparse(node)}' is not allowed in an expression")


def _compares_two(node: ast.Compare) -> bool:
    return len(node.ops) == 1 and not isinstance(node.ops[0], _NOT_OF_TENSORS)


def _attribute_names(node: ast.Attribute) -> Iterator[str]:
    if ast.unparse(node.value) == "torch" and node.attr in SIZES:
        return
    if node.attr not in ATTRIBUTES:
        raise ExpressionError(_unlisted_error("attribute", node.attr, ATTRIBUTES))
    yield from _names(node.value)


def _call_names(node: ast.Call) -> Iterator[str]:
    if function_named(node.func) is None:
        if not isinstance(node.func, ast.Attribute):
            raise ExpressionError(f"'{ast.unparse(node)}' calls no function of torch")
        if node.func.attr not in METHODS:
            raise ExpressionError(_unlisted_error("method", node.func.attr, METHODS))
        yield from _names(node.func.value)
    for keyword in node.keywords:
        if keyword.arg is None or keyword.arg == "out":
            raise ExpressionError(f"'{ast.unparse(node)}': this argument is not allowed")
        yield from _names(keyword.value)
    for argument in node.args:
        yield from _names(argument)


def _unlisted_error(kind: str, name: str, allowed: Iterable[str]) -> str:
    close = get_close_matches(name, allowed, n=1)
    hint = f"; did you mean '{close[0]}'?" if close else ""
    return (
        f"no {kind} '{name}' in expressions{hint} (a function of your own is named as "
        "FILE.py:FUNCTION)"
    )


_NAMED = re.compile(r"(?P<file>[^:]+\.py):(?P<function>[A-Za-z_][A-Za-z0-9_]*)")


def split_function(text: str) -> tuple[str, str] | None:
    """File and name in `FILE.py:FUNCTION`; None for any other text."""
    match = _NAMED.fullmatch(text.strip())
    return None if match is None else (match["file"], match["function"])
