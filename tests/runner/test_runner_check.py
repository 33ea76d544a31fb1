"""Poison and comparison of outputs with their references."""

import math
import re
import weakref

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from profiler.runner.checks import check
from profiler.runner.checks.check import (
    WrongResultError,
    as_tensors,
    compare,
    poison,
    poisoned_result,
    regions,
    tolerance_for,
)
from profiler.runner.checks.sensitivity import why_check_tells_little, why_result_tells_little
from profiler.runner.protocol import Tolerance

EXACT = {"default": Tolerance(0.0, 0.0)}
NAN, INF = math.nan, math.inf


def complaint(got, expected, tolerances=EXACT):
    with pytest.raises(WrongResultError) as caught:
        compare((got,), (expected,), tolerances)
    return str(caught.value)


def test_the_bound_is_absolute_plus_relative_to_the_expected_value():
    expected = torch.tensor([100.0, 0.0], dtype=torch.float64)
    bound = {"default": Tolerance(0.5, 0.01)}

    compare((expected + torch.tensor([1.5, 0.5]),), (expected,), bound)

    message = complaint(expected + torch.tensor([1.5001, 0.0]), expected, bound)
    assert message.startswith("output 0: 1 of 2 elements are wrong; worst at [0]: got 101.5,")
    assert "expected 100, off by 1.5 (allowed in float64: 0.5 + 0.01 * |expected|; " in message
    assert message.endswith(
        "tolerance that would pass: {absolute: 0.51, relative: 0.01} or "
        "{absolute: 0.5, relative: 0.011})"
    )


def test_the_bounds_that_are_named_pass_and_much_smaller_ones_do_not():
    generator = torch.Generator().manual_seed(1)
    expected = 100 * torch.randn(1000, generator=generator, dtype=torch.float64)
    got = expected * (1 + 1e-6 * torch.randn(1000, generator=generator, dtype=torch.float64))
    message = complaint(got, expected, {"default": Tolerance(1e-5, 2.5e-6)})
    named = re.findall(r"{absolute: (\S+), relative: (\S+)}", message)
    assert len(named) == 2
    for place, bounds in enumerate(named):
        numbers = [float(bound) for bound in bounds]
        compare((got,), (expected,), {"default": Tolerance(*numbers)})
        numbers[place] *= 0.85
        complaint(got, expected, {"default": Tolerance(*numbers)})


@pytest.mark.parametrize(
    ("bound", "zeros_match"),
    [
        (check.Tolerance(1e-2, 1e-2), True),  # of a softmax over a long row
        (check.Tolerance(0.0, 5.0), True),  # meant as percent
        (check.Tolerance(1e-4, 1e-2), False),
        (None, False),
    ],
)
def test_a_tolerance_larger_than_the_result_lets_zeros_pass(bound, zeros_match):
    softmax = torch.softmax(torch.linspace(-1, 1, 4096), 0)
    layers = () if bound is None else ({"default": bound},)
    result = (softmax,)
    assert check.compare(result, result, *layers).zeros_match is zeros_match
    for other in (torch.zeros(8), torch.tensor([1e-3, float("inf")])):
        assert not check.compare((other,), (other,), *layers).zeros_match
    both = (softmax, torch.ones(4))
    assert check.compare(both, both, *layers).zeros_match is zeros_match


@pytest.mark.parametrize(
    ("outputs", "value"),
    [
        ([torch.zeros(64)], 0.0),
        ([torch.full((3, 5, 7), 2.5, dtype=torch.float16), torch.tensor(7)], 2.5),
        ([torch.ones(100, dtype=torch.bool), torch.ones(8, 8).to(torch.float8_e4m3fn)], 1.0),
        ([torch.ones(100), torch.zeros(100)], None),
        ([torch.ones(63)], None),  # few: a chance, or a sum
        ([torch.arange(100) // 99], None),
        ([torch.full((100,), float("inf"))], None),
        ([torch.full((100,), float("nan"))], None),
        ([torch.ones(100, dtype=torch.complex64)], None),
        ([torch.zeros(0, 4)], None),
        ([], None),
    ],
)
def test_a_result_of_one_value_is_found(outputs, value):
    assert check.common_value(tuple(outputs)) == value


def test_numbers_that_look_the_same_get_more_digits():
    expected = torch.tensor([-61.7817], dtype=torch.float64)
    message = complaint(expected - 3e-6, expected)
    assert "got -61.781703, expected -61.7817, off by 3e-06" in message


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_small_results_are_compared_by_their_largest_element(dtype):
    """All elements of the gradient of a mean over a million are below the default of 1e-5."""
    expected = torch.linspace(-1e-6, 1e-6, 1001).to(dtype)
    compare((expected * (1 + torch.finfo(dtype).eps),), (expected.double(),), {})
    for wrong in (torch.zeros_like(expected), -expected, expected.flip(0)):
        with pytest.raises(WrongResultError):
            compare((wrong,), (expected.double(),), {})
    compare((torch.full((3,), 1e-7),), (torch.zeros(3),), {})  # nothing but zeros has no size
    compare((torch.zeros(1001, dtype=dtype),), (expected,), {"default": Tolerance(1e-5, 0)})


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.complex64])
def test_small_elements_beside_large_ones_are_compared_with_their_own_kind(dtype):
    """The gradient of a cross entropy is such a result: -1 at the target, a millionth elsewhere."""
    generator = torch.Generator().manual_seed(0)
    expected = torch.rand(4096, generator=generator).to(torch.float64) * 1e-6 + 1e-6
    expected[::64] = -1.0
    right = expected.to(dtype)
    expected = expected.to(right.to(torch.complex128).dtype if dtype.is_complex else torch.float64)
    compare((right,), (expected,), {})
    for factor in (0.0, 0.5):
        wrong = torch.where(expected.abs() < 0.5, right * factor, right)
        with pytest.raises(WrongResultError, match="4032 of 4096"):
            compare((wrong,), (expected,), {})


def test_a_result_in_bfloat16_is_no_other_multiple_of_the_right_one():
    """By element, rounding would explain it: 1.2 % are less than the default tolerance."""
    expected = torch.randn(64, 48, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    few = expected[:5]
    for factor in (1.012, 0.988):
        wrong = (factor * expected).bfloat16()
        message = complaint(wrong, expected, {})
        assert message.startswith(f"output 0: all of it is {factor}")
        compare((wrong,), (expected,), {"bfloat16": Tolerance(1e-5, 1.6e-2)})
        compare(((factor * few).bfloat16(),), (few,), {})  # may be chance
    some = expected.clone()
    some[:32] *= 1.012
    compare((some.bfloat16(),), (expected,), {})


def test_the_smallest_numbers_of_a_type_may_be_a_step_off():
    expected = torch.linspace(1e-7, 1e-6, 100, dtype=torch.float64)
    compare((expected.half(),), (expected,), {})
    tiny = torch.full((100,), 1e-39, dtype=torch.float64)
    compare((torch.zeros(100),), (tiny,), {})  # flushed


def test_no_bound_is_named_where_none_would_pass():
    assert "would pass" not in complaint(torch.tensor([NAN]), torch.tensor([1.0]))
    message = complaint(torch.tensor([2e-4]), torch.tensor([0.0]), {})
    assert message.endswith("tolerance that would pass: {absolute: 0.0002, relative: 1.3e-06})")
    almost = torch.tensor([0.0, *[1.0] * 200], dtype=torch.bfloat16)
    message = complaint(almost, torch.ones(201), {})
    assert "would pass" not in message  # relative: 1, by which zeros would be right


@pytest.mark.parametrize("dtype", [torch.float32, torch.int32, torch.float8_e4m3fn])
def test_right_values_in_another_order_are_named(dtype):
    expected = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    for got, is_named in (
        (expected.flip(1), True),
        (expected.flip(0), False),
        (expected.flip(1) + torch.tensor([1.0, 0.0, 0.0]), False),
    ):
        text = complaint(got.to(dtype), expected.to(dtype))
        assert ("values are right, in another order" in text) == is_named


def test_an_error_of_the_size_of_tf32_names_it():
    expected = torch.randn(64, 256, generator=torch.Generator().manual_seed(0))
    product = expected @ expected.T
    tf32 = ((expected.view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)
    for got, is_named in ((tf32 @ tf32.T, True), (product + 1e-3, False), (product * 2, False)):
        assert ("TF32" in complaint(got, product, {})) == is_named
    assert "TF32" not in complaint(tf32.double() @ tf32.T.double(), product.double(), {})


def test_no_bound_is_named_for_a_result_that_is_not_nearly_right():
    assert "would pass" not in complaint(torch.tensor([2.0]), torch.tensor([0.0]), {})
    expected = torch.ones(1000)
    for count, named in ((10, True), (11, False)):
        got = expected.clone()
        got[:count] += 1e-4
        assert ("would pass" in complaint(got, expected, {})) == named


@pytest.mark.parametrize("bound", [1e-30, 3.05e-5, 1.0, 9.99, 99.5, 123456.0])
def test_a_bound_is_rounded_up_to_two_digits(bound):
    assert bound <= check.rounded_up(bound) <= 1.1 * bound


@pytest.mark.parametrize(
    ("got", "expected", "matches"),
    [
        (NAN, NAN, True),
        (INF, INF, True),
        (-INF, -INF, True),
        (INF, -INF, False),
        (1.0, INF, False),
        (INF, 1.0, False),
        (NAN, 1.0, False),
        (1.0, NAN, False),
        (NAN, INF, False),
    ],
)
def test_values_that_are_not_finite_match_only_themselves(got, expected, matches):
    pair = (torch.tensor([got]),), (torch.tensor([expected]),)
    loose = {"default": Tolerance(1e9, 1e9)}
    if matches:
        assert compare(*pair, loose) == check.Errors(None, None)
    else:
        with pytest.raises(WrongResultError, match="1 of 1 elements are wrong") as caught:
            compare(*pair, loose)
        assert "off by" not in str(caught.value)


def test_a_few_numbers_near_zero_are_no_magnitude_of_their_own():
    normal = torch.randn(4096, generator=torch.Generator().manual_seed(0))
    assert len(check.magnitude_gaps(torch.cat([normal, torch.full((7,), 1e-9)]), 64)) == 0
    (gap,) = check.magnitude_gaps(torch.cat([normal, torch.full((8,), 1e4)]), 64)
    assert 10 < gap < 1e3


VALUES = st.sampled_from([0.0, -0.0, 1e-30, 1.0, 1.001, -1.001, 3e4, NAN, INF, -INF])


@given(
    st.lists(st.tuples(VALUES, VALUES), min_size=1, max_size=6),
    st.sampled_from([0.0, 1e-3, 0.5]),
    st.sampled_from([0.0, 2e-3]),
)
def test_a_short_comparison_says_what_the_long_one_does(pairs, absolute, relative):
    """Where it is sure that all is right; else the long one decides."""
    got, expected = torch.tensor(pairs, dtype=torch.float64).unbind(dim=1)
    short, long = (check._Tally(Tolerance(absolute, relative)) for _ in range(2))
    long._count_region((slice(0, len(pairs)),), got, expected, absolute)
    if short._all_match(got, expected, absolute):
        assert (long.wrong, long.max_abs, long.max_rel) == (0, short.max_abs, short.max_rel)
    else:
        assert long.wrong or not (got.isfinite() & expected.isfinite()).all()


def test_the_worst_element_is_found_across_regions(monkeypatch):
    monkeypatch.setattr(check.regions, "__defaults__", (8,))
    expected = torch.zeros(5, 4, 3, dtype=torch.float64)
    got = expected.clone()
    got[0, 1, 2] = 1.0
    got[3, 2, 1] = -7.0
    got[4, 3, 2] = 2.0

    message = complaint(got, expected)

    assert "3 of 60 elements are wrong; worst at [3, 2, 1]: got -7, expected 0" in message


def test_tensors_with_gaps_between_their_elements_are_compared():
    expected = torch.arange(24.0).reshape(4, 6)
    got = expected.t().contiguous().t()

    assert compare((got[:, ::2],), (expected[:, ::2].double(),), EXACT).max_abs == 0.0


@pytest.mark.parametrize(
    "shape", [(), (1,), (0,), (3, 0), (0, 3), (7,), (3, 5), (2, 9, 4), (1, 40)]
)
@pytest.mark.parametrize("limit", [1, 4, 10, 1000])
def test_regions_cover_every_element_once_within_the_limit(shape, limit):
    seen = torch.zeros(shape)
    for region in regions(shape, limit):
        assert 0 < seen[region].numel() <= limit
        seen[region] += 1
    assert bool((seen == 1).all())


def test_largest_errors_of_several_outputs():
    expected = (torch.tensor([10.0, 0.0]), torch.tensor([4.0]))
    got = (torch.tensor([10.5, 0.25]), torch.tensor([3.0]))

    errors = compare(got, expected, {"default": Tolerance(1.0, 0.0)})

    assert errors == check.Errors(max_abs=1.0, max_rel=0.25)


def test_a_relative_error_needs_an_expected_value_other_than_0():
    nothing = torch.zeros(3)

    assert compare((nothing,), (nothing,)) == check.Errors(max_abs=0.0, max_rel=None)


def test_every_wrong_output_is_named():
    got = (torch.tensor([1.0]), torch.tensor([2.0]), torch.tensor([3.0]))
    expected = (torch.tensor([0.0]), torch.tensor([2.0]), torch.tensor([0.0]))

    with pytest.raises(WrongResultError, match=r"output 0: 1 of 1 .*; output 2: 1 of 1") as caught:
        compare(got, expected, EXACT)

    assert caught.value.errors == check.Errors(3.0, 0.0)


def test_where_indices_alone_are_wrong_ties_may_explain_it():
    values, indices = torch.tensor([2.0, 1.0, 1.0]), torch.tensor([0, 2, 1])
    with pytest.raises(WrongResultError, match="indices of equal values, write a check"):
        compare((values, indices), (values, indices.sort().values), EXACT)
    places = torch.arange(0, 64, 2)
    with pytest.raises(WrongResultError, match=r"allowed in int64: none.*the other elements are"):
        compare((places.index_fill(0, torch.tensor(5), 40),), (places,), EXACT)
    for got in ((values + 1, indices), (indices,)):
        with pytest.raises(WrongResultError) as caught:
            compare(got, (values, indices.sort().values)[-len(got) :], EXACT)
        assert "write a check" not in str(caught.value)


def test_large_integers_are_compared_exactly():
    expected = torch.tensor([2**60, 5])

    assert compare((expected.clone(),), (expected,)).max_abs == 0.0
    message = complaint(expected + torch.tensor([1, 0]), expected)
    assert f"got {2**60 + 1}, expected {2**60}" in message


def test_booleans_and_complex_numbers_are_compared():
    truth = torch.tensor([True, False])
    wave = torch.tensor([1 + 2j, 3j])

    compare((truth, wave), (truth.clone(), wave.to(torch.complex128)))
    assert "worst at [1]: got True, expected False" in complaint(truth | True, truth)
    assert "got 1+3j, expected 1+2j" in complaint(wave + torch.tensor([1j, 0]), wave)


@pytest.mark.parametrize(
    ("got", "expected", "words"),
    [
        (torch.zeros(2, 3), torch.zeros(3, 2), r"output 0: shape \(2, 3\), expected \(3, 2\)"),
        (torch.zeros(2), torch.zeros(2, dtype=torch.int32), "torch.float32, but the reference is"),
        (torch.zeros(2, dtype=torch.bool), torch.zeros(2, dtype=torch.int8), "torch.bool, but"),
    ],
)
def test_outputs_of_another_shape_or_kind_are_wrong(got, expected, words):
    with pytest.raises(WrongResultError, match=words) as caught:
        compare((got,), (expected,))
    assert caught.value.errors is None


def test_a_list_of_numbers_is_as_many_outputs():
    with pytest.raises(
        WrongResultError, match=r"3 outputs, .* 1: each number of a list is one, ret"
    ):
        compare(tuple(torch.ones(3)), (torch.ones(3),))


def test_a_nan_where_none_belongs_hints_at_an_element_never_written():
    assert "never written" in complaint(torch.tensor([NAN]), torch.tensor([1.0]))
    assert "never written" not in complaint(torch.tensor([2.0]), torch.tensor([1.0]))


@pytest.mark.parametrize(
    "dtype",
    [
        torch.float16,
        torch.bfloat16,
        torch.float32,
        torch.float64,
        torch.float8_e4m3fn,
        torch.float8_e5m2,
        torch.complex64,
    ],
)
def test_poison_of_numbers_with_a_fraction_is_nan(dtype):
    tensor = torch.zeros(4, dtype=dtype)

    poison([tensor])

    wide = tensor.to(torch.complex128 if dtype.is_complex else torch.float64)
    assert bool(torch.isnan(wide).all())


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64])
def test_poison_of_integers_is_large_but_no_limit(dtype):
    tensor = torch.zeros(4, dtype=dtype)

    poison([tensor])

    largest = torch.iinfo(dtype).max
    assert largest // 2 < int(tensor[0]) < largest


def test_outputs_are_poisoned_before_the_launch():
    output = torch.ones(3)

    class Launch:
        outputs = (output,)

        def __call__(self):
            output[0] = 5.0

    (result,) = as_tensors(poisoned_result(Launch()), "the result")

    assert result is output
    assert result[0] == 5.0
    assert bool(torch.isnan(result[1:]).all())


def test_a_bare_tensor_is_a_set_of_one_output():
    class Launch:
        outputs = torch.ones(3)

        def __call__(self):
            return None

    (result,) = as_tensors(poisoned_result(Launch()), "the result")

    assert result.shape == (3,)


def test_memory_of_undeclared_outputs_is_poisoned_between_two_launches(monkeypatch):
    poisoned = []
    monkeypatch.setattr(check, "poison", poisoned.extend)
    made = []

    def launch():
        made.append(1)
        return torch.zeros(4, 2, dtype=torch.float16)

    as_tensors(poisoned_result(launch), "the result")

    assert len(made) == 2
    assert [(t.shape, t.dtype) for t in poisoned] == [((4, 2), torch.float16)]


def test_memory_of_numpy_is_poisoned_by_numpy(monkeypatch):
    """NumPy gets its own memory again, and not that of a tensor."""
    poisoned = []
    monkeypatch.setattr(check, "poison", poisoned.extend)
    made, empty_like = [], np.empty_like
    monkeypatch.setattr(
        np, "empty_like", lambda *a, **k: made.append(empty_like(*a, **k)) or made[-1]
    )
    released = []

    def launch():
        result = np.ones((4, 2), "float32")
        weakref.finalize(result, lambda: released.append(len(made)))
        return result, np.float64(1), np.broadcast_to(np.float32(1), 3)

    as_tensors(poisoned_result(launch), "the result")

    assert [tuple(t.shape) for t in poisoned] == [(4, 2), (), (3,)]
    addresses = {array.__array_interface__["data"][0] for array in made}
    assert [t.data_ptr() in addresses for t in poisoned] == [True, False, True]
    assert released[0] == 2, "released before anything of its size was made"


def test_an_array_with_negative_strides_is_refused_before_torch_aborts():
    with pytest.raises(TypeError, match="negative strides: give a copy"):
        as_tensors(np.ones(3)[::-1], "the result")


@pytest.mark.parametrize(
    ("dtype", "layers", "expected"),
    [
        (torch.float16, [{"float16": Tolerance(1, 2)}, {"float16": Tolerance(3, 4)}], (1, 2)),
        (torch.float32, [{"float16": Tolerance(1, 2)}, {"float32": Tolerance(3, 4)}], (3, 4)),
        (torch.float32, [{"default": Tolerance(1, 2)}, {"float32": Tolerance(3, 4)}], (1, 2)),
        (torch.float16, [{}, {}], (1e-5, 1e-3)),
        (torch.int64, [{}, {}], (0, 0)),
        (torch.float8_e4m3fn, [], (2**-9, 0.125)),
    ],
)
def test_the_first_layer_that_knows_a_dtype_sets_its_bound(dtype, layers, expected):
    assert tolerance_for(dtype, *layers) == Tolerance(*expected)


class Liar(torch.Tensor):
    """Says of itself that it is what it is compared with."""

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        with torch._C.DisableTorchFunctionSubclass():
            result = function(*args, **(kwargs or {}))
            return torch.zeros_like(result) if isinstance(result, torch.Tensor) else result


class Wrapper(torch.Tensor):
    """Gives whatever it likes for each operation."""

    @staticmethod
    def __new__(cls, shape):
        return torch.Tensor._make_wrapper_subclass(cls, shape)

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        return torch.zeros(3)


def test_a_tensor_that_answers_for_itself_is_asked_for_its_elements():
    right = torch.zeros(3)
    (got,) = as_tensors(torch.ones(3).as_subclass(Liar), "the result")
    with pytest.raises(WrongResultError, match="3 of 3 elements are wrong"):
        compare((got,), (right,))
    with pytest.raises(TypeError, match="Wrapper is no plain tensor"):
        as_tensors(Wrapper((3,)), "the result")
    jagged = torch.nested.nested_tensor([right, torch.ones(2)], layout=torch.jagged)
    with pytest.raises(TypeError, match=r"a nested tensor is not compared: return its values\(\)"):
        as_tensors(jagged, "the result")
    (parameter,) = as_tensors(torch.nn.Parameter(right), "the result")
    compare((parameter.detach(),), (right,))


RANDOM = torch.linspace(-1, 1, 5000)


def test_a_right_result_that_is_nan_tells_little():
    nan = torch.full((64, 128), math.nan)
    assert "nan in all elements" in why_result_tells_little((RANDOM, nan))
    assert "no elements" in why_result_tells_little((torch.ones(0), torch.ones(3, 0)))
    nan[63, 127] = 1
    assert not why_result_tells_little((RANDOM, nan, torch.ones(0), torch.arange(3)))


def forgets_to_answer(result):
    torch.allclose(result, RANDOM)


def finds_no_nan(result):
    if (result - RANDOM).abs().max() > 1e-3:
        raise check.WrongResultError


def of_zeros_too(result):
    torch.testing.assert_close(result * RANDOM, RANDOM * result)


@pytest.mark.parametrize(
    ("own_check", "result", "said"),
    [
        (forgets_to_answer, RANDOM, "the check accepts zeros in place of the result, and nan"),
        (lambda _: None, (RANDOM.numpy(), torch.arange(3)), "the check accepts zeros in place"),
        (finds_no_nan, RANDOM * math.nan, "the check accepts a result with nan"),
        (finds_no_nan, RANDOM, ""),
        (of_zeros_too, RANDOM, ""),
        (lambda _: None, 3.0, ""),
    ],
)
def test_a_check_that_accepts_anything_tells_little(own_check, result, said):
    tensors = check.as_tensors(result, "the result")
    copies = [tensor.clone() for tensor in tensors]
    why = why_check_tells_little(own_check, result, tensors)
    assert why.startswith(said)
    assert bool(why) is bool(said)
    assert all(map(torch.equal, map(torch.nan_to_num, tensors), map(torch.nan_to_num, copies)))
