"""The two written forms of a configuration: the short one for people, and a kernel's name.

`(BF16, 128, 64, 64, 4): async+eager+swizzled+load_0_2_2_tiles+buffer+opt_softmax` and
`…FlashForwardKernelConfig{15, 128, 64, 64, 4, true, …}`, where a value may have its type before it,
as in `(c10::ScalarType)15` or `(bool)1`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from attention.parameters import Value
from attention.problem import DTYPE_CODES
from flash_attention.config import (
    FIELDS,
    FLAG_FIELDS,
    TILE_FIELDS,
    Config,
    make_config,
)

_SIZES = ("dtype", "d_head", "B_r", "B_c", "n_warps")
_FLAGS: Mapping[str, str] = {
    "async": "async_copy",
    "eager": "eager_load_blocks",
    "swizzled": "swizzled",
    "buffer": "mma_double_buffer_loads",
    "opt_softmax": "optimized_softmax",
}
_BEFORE_TILES = ("async", "eager", "swizzled")
_AFTER_TILES = ("buffer", "opt_softmax")

_SHORT = re.compile(r"\s*\(([^()]*)\)\s*:\s*(\S+)\s*")
_TILES = re.compile(r"load_(\d+)_(\d+)_(\d+)_tiles")
_STRUCT = "FlashForwardKernelConfig"
_DEMANGLED = re.compile(_STRUCT + r"\s*\{([^{}]*)\}")
_TYPED = re.compile(r"(?:\(([\w:]+)\)\s*)?(\w+)")
_TRUTH = {"0": False, "1": True, "false": False, "true": True}


def parse(text: str) -> Config:
    """Configuration of either written form.

    Raises ValueError for a text that is neither, for unknown tokens, and for illegal values.
    """
    demangled = _DEMANGLED.search(text)
    if demangled is not None:
        return _from_values(demangled[1])
    short_match = _SHORT.fullmatch(text)
    if short_match is None:
        raise ValueError(
            f"{text!r} is no configuration; write it like {short_form(Config())!r}, "
            f"or as a kernel's name with {_STRUCT}{{…}}"
        )
    return make_config({**_sizes(short_match[1]), **_flags(short_match[2])})


def short_form(config: Config) -> str:
    """The form for people: sizes, enabled flags, and the loads of Q, K and V."""
    sizes = ", ".join(str(getattr(config, name)) for name in _SIZES)
    tiles = "_".join(str(getattr(config, name)) for name in TILE_FIELDS)
    before = [word for word in _BEFORE_TILES if getattr(config, _FLAGS[word])]
    after = [word for word in _AFTER_TILES if getattr(config, _FLAGS[word])]
    return f"({sizes}): " + "+".join((*before, f"load_{tiles}_tiles", *after))


def _sizes(text: str) -> dict[str, Value]:
    values = [value.strip() for value in text.split(",")]
    if len(values) != len(_SIZES):
        raise ValueError(f"({text}) must hold {', '.join(_SIZES)}")
    dtype, *numbers = values
    pairs = zip(_SIZES[1:], numbers, strict=True)
    return {"dtype": dtype, **{name: _integer(name, value) for name, value in pairs}}


def _flags(text: str) -> dict[str, Value]:
    fields: dict[str, Value] = {}
    for token in text.split("+"):
        tiles = _TILES.fullmatch(token)
        new_fields: dict[str, Value]
        if tiles is not None:
            pairs = zip(TILE_FIELDS, tiles.groups(), strict=True)
            new_fields = {name: int(value) for name, value in pairs}
        elif token in _FLAGS:
            new_fields = {_FLAGS[token]: True}
        else:
            tokens = ", ".join(_FLAGS)
            raise ValueError(f"unknown token {token!r}; known are {tokens} and load_Q_K_V_tiles")
        if new_fields.keys() & fields.keys():
            raise ValueError(f"{token!r} comes twice, or contradicts another token")
        fields |= new_fields
    if TILE_FIELDS[0] not in fields:
        raise ValueError(f"{text!r} lacks load_Q_K_V_tiles")
    return {**dict.fromkeys(FLAG_FIELDS, False), **fields}


def _from_values(text: str) -> Config:
    values = [value.strip() for value in text.split(",")]
    if len(values) != len(FIELDS):
        raise ValueError(f"{_STRUCT} has {len(FIELDS)} fields, not {len(values)}")
    pairs = zip(FIELDS, values, strict=True)
    return make_config({name: _read_value(name, value) for name, value in pairs})


def _read_value(name: str, text: str) -> Value:
    match = _TYPED.fullmatch(text)
    if match is None or match[1] not in (None, _type_of(name)):
        raise ValueError(f"{name}: {text!r} is no value of type {_type_of(name)}")
    if name == "dtype":
        codes = {str(code): dtype for dtype, code in DTYPE_CODES.items()}
        if match[2] not in codes:
            raise ValueError(f"dtype: no FP16 (5) or BF16 (15): {text!r}")
        return codes[match[2]]
    if name in FLAG_FIELDS:
        if match[2] not in _TRUTH:
            raise ValueError(f"{name}: {text!r} is neither true nor false")
        return _TRUTH[match[2]]
    return _integer(name, match[2])


def _integer(name: str, text: str) -> int:
    if re.fullmatch(r"[0-9]+", text) is None:
        raise ValueError(f"{name}: {text!r} is no whole number")
    return int(text)


def _type_of(name: str) -> str:
    if name == "dtype":
        return "c10::ScalarType"
    return "bool" if name in FLAG_FIELDS else "int"
