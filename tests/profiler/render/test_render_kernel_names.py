"""Kernel names as people wrote them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profiler.render.words.names import kernel_list, plain_kernel, readable_kernel

VECTOR = "_ZN7softmax14softmax_vectorI6__halfLi16EEEvPKT_PS2_xx"


@pytest.mark.parametrize(
    ("mangled", "expected"),
    [
        (VECTOR, "softmax::softmax_vector<__half, 16>"),
        ("_ZN7softmax14softmax_sharedIfLb1EEEvPKT_PS1_x", "softmax::softmax_shared<float, true>"),
        ("_Z4gemmILin3ELm7EEvv", "gemm<-3, 7>"),
        ("_Z1kv", "k"),
        ("scale", "scale"),
        ("void k<int>(float*)", "void k<int>(float*)"),
        ("_Znonsense", "_Znonsense"),
        ("_Z1kIXadL_Z1fvEEEvv", "_Z1kIXadL_Z1fvEEEvv"),
    ],
)
def test_names(mangled, expected):
    assert readable_kernel(mangled) == expected


@given(cut=st.integers(2, len(VECTOR)), rest=st.text("NSTEILX_0123456789abPKZv<", max_size=8))
def test_damaged_names_never_fail(cut, rest):
    assert readable_kernel(VECTOR[:cut] + rest)


def test_a_column_of_names_is_a_text_or_a_list():
    assert kernel_list("cos_kernel; void add<float, 4>(float*)") == (
        "cos_kernel",
        "void add<float, 4>(float*)",
    )
    assert kernel_list(["a", "b"]) == ("a", "b")
    assert kernel_list("") == kernel_list(None) == kernel_list(float("nan")) == ()


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        (
            "void at::native::elementwise_kernel<(int)128, void f<T>(T &)::[lambda()]>(int, T3)",
            "elementwise_kernel",
        ),
        (
            "void at::native::<unnamed>::cunn_SoftMaxForward<(int)4, float>(T4 *, int)",
            "cunn_SoftMaxForward",
        ),
        ("bias_gelu_vectorised", "bias_gelu_vectorised"),
        ("triton_poi_fused_add_0", "triton_poi_fused_add_0"),
        ("(anonymous)", "(anonymous)"),
        ("", ""),
    ],
)
def test_a_kernel_in_a_sentence_has_its_plain_name(name, plain):
    assert plain_kernel(name) == plain
