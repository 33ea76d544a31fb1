import pytest
from hypothesis import given
from hypothesis import strategies as st

from attention.problem import DTYPE_CODES
from flash_attention.config import (
    CHOICES,
    FIELDS,
    FLAG_FIELDS,
    TILE_FIELDS,
    make_config,
    refusal,
)
from flash_attention.names import parse, short_form

LEGAL = (
    st.fixed_dictionaries(
        {
            "dtype": st.sampled_from(["FP16", "BF16"]),
            **{name: st.sampled_from(values) for name, values in CHOICES.items()},
            **dict.fromkeys(TILE_FIELDS, st.sampled_from([0, 2, 4, 8])),
            **dict.fromkeys(FLAG_FIELDS, st.booleans()),
        }
    )
    .filter(lambda params: refusal(params) is None)
    .map(make_config)
)

EXAMPLE = "(BF16, 128, 64, 64, 4): async+eager+swizzled+load_0_2_2_tiles+buffer+opt_softmax"


def demangled_form(config, *, typed=False):
    """The struct as a demangled kernel name has it, with or without the types."""
    values = (demangled_value(name, getattr(config, name), typed=typed) for name in FIELDS)
    return f"FlashForwardKernelConfig{{{', '.join(values)}}}"


def demangled_value(name, value, *, typed):
    flag = isinstance(value, bool)
    kind = "(c10::ScalarType)" if name == "dtype" else "(bool)" if flag else "(int)"
    if name == "dtype":
        text = str(DTYPE_CODES[value])
    elif flag:
        text = str(int(value)) if typed else str(value).lower()
    else:
        text = str(value)
    return f"{kind}{text}" if typed else text


@given(LEGAL)
def test_every_written_form_reads_back_as_the_same_configuration(config):
    assert parse(short_form(config)) == config
    for typed in (False, True):
        name = f"void flash_forward_kernel<{demangled_form(config, typed=typed)}>(FlashArgs)"
        assert parse(name) == config


@given(LEGAL, LEGAL)
def test_written_forms_tell_configurations_apart(first, second):
    for write in (short_form, demangled_form):
        assert (write(first) == write(second)) == (first == second)


def test_the_short_form():
    config = parse(EXAMPLE)
    assert short_form(config) == EXAMPLE
    assert (config.dtype, config.d_head, config.B_r, config.B_c) == ("BF16", 128, 64, 64)
    assert config.async_copy is True
    assert config.mma_double_buffer_loads is True
    assert (config.Q_mma_load_K_tiles, config.K_mma_load_K_tiles) == (0, 2)
    assert parse("(FP16,128,64,64,4):load_0_0_0_tiles").swizzled is False


@pytest.mark.parametrize(
    "name",
    [
        "flash_forward_kernel<FlashForwardKernelConfig"
        "{15, 128, 64, 64, 4, true, true, true, 0, 2, 2, true, true}>",
        "void f<(ns::FlashForwardKernelConfig{(c10::ScalarType)15, (int)128, (int)64, (int)64, "
        "(int)4, (bool)1, (bool)1, (bool)1, (int)0, (int)2, (int)2, (bool)1, (bool)1})>(Args)",
    ],
)
def test_demangled_names_have_real_booleans(name):
    config = parse(name)
    assert short_form(config) == EXAMPLE
    assert all(isinstance(getattr(config, flag), bool) for flag in FLAG_FIELDS)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is no configuration"),
        ("BF16, 128, 64, 64, 4", "is no configuration"),
        (EXAMPLE + "+fast", "unknown token 'fast'"),
        (EXAMPLE.replace("eager", "Eager"), "unknown token 'Eager'"),
        (EXAMPLE + "+buffer", "'buffer' comes twice"),
        (EXAMPLE + "+load_0_0_0_tiles", "comes twice"),
        (EXAMPLE.replace("+load_0_2_2_tiles", ""), "lacks load_Q_K_V_tiles"),
        (EXAMPLE.replace("async+", ""), "eager_load_blocks needs async_copy"),
        (EXAMPLE.replace("BF16", "FP8"), "dtype must be one of FP16, BF16"),
        (EXAMPLE.replace("128", "96"), "d_head must be one of 64, 128, 256, not 96"),
        (EXAMPLE.replace("128", "wide"), "'wide' is no whole number"),
        (EXAMPLE.replace(", 4)", ")"), "must hold dtype, d_head, B_r, B_c, n_warps"),
        (EXAMPLE.replace("load_0", "load_3"), "0 or a power of two from 2, not 3"),
        ("FlashForwardKernelConfig{15, 128}", "13 fields, not 2"),
    ],
)
def test_what_is_no_configuration_is_refused_with_its_reason(text, words):
    with pytest.raises(ValueError, match=words.replace("(", r"\(")):
        parse(text)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("(c10::ScalarType)15", "(c10::ScalarType)6", "no FP16"),
        ("(c10::ScalarType)15", "(int)15", "no value of type c10::ScalarType"),
        ("(bool)1", "(int)1", "no value of type bool"),
        ("(bool)1", "(bool)2", "neither true nor false"),
        ("(int)128", "(int)true", "no whole number"),
        ("(int)128", "(int)-128", "no value of type int"),
    ],
)
def test_values_of_a_demangled_name_have_their_type(old, new, words):
    name = demangled_form(parse(EXAMPLE), typed=True)
    with pytest.raises(ValueError, match=words):
        parse(name.replace(old, new, 1))
