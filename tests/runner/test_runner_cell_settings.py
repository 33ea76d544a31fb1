"""Settings of the whole process that one cell changes are its own, whichever way torch has them."""

from contextlib import suppress

import pytest
import torch

from profiler.runner.phases import CellSettings, without_tf32


def _known():
    """Settings of torch by name, as its older and newer ways tell them."""
    ways = {
        "precision": torch.get_float32_matmul_precision,
        "matmul": lambda: torch.backends.cuda.matmul.allow_tf32,
        "matmul, newer": lambda: torch.backends.cuda.matmul.fp32_precision,
        "cudnn": lambda: torch.backends.cudnn.allow_tf32,
        "conv, newer": lambda: torch.backends.cudnn.conv.fp32_precision,
        "threads": torch.get_num_threads,
    }
    known = {}
    for name, way in ways.items():
        with suppress(RuntimeError):  # torch refuses to tell by the older ways after the newer ones
            known[name] = way()
    return known


def _allow_for_matmul():
    torch.backends.cuda.matmul.allow_tf32 = True


def _forbid_for_cudnn():
    torch.backends.cudnn.allow_tf32 = False


def _forbid_for_convolutions():
    torch.backends.cudnn.conv.fp32_precision = "ieee"


def _take_another_thread():
    torch.set_num_threads(torch.get_num_threads() + 1)


@pytest.mark.parametrize(
    "change",
    [
        _allow_for_matmul,
        lambda: torch.set_float32_matmul_precision("medium"),
        _forbid_for_cudnn,
        _forbid_for_convolutions,
        _take_another_thread,
    ],
    ids=["matmul", "precision", "cudnn", "convolutions", "threads"],
)
def test_what_a_cell_sets_is_its_own(change):
    """Written back by the newer way alone, torch no longer told whether cuDNN may use TF32."""
    settings, before = CellSettings(), _known()
    with settings.in_force("a"):
        change()
        changed = _known()
    assert changed != before
    assert _known() == before
    with settings.in_force("b"):
        assert _known() == before
    with settings.in_force("a"):
        assert _known() == changed
    assert _known() == before


@pytest.mark.parametrize(
    "allow",
    [
        lambda: None,
        _allow_for_matmul,
        lambda: torch.set_float32_matmul_precision("medium"),
        lambda: setattr(torch.backends, "fp32_precision", "tf32"),
    ],
    ids=["default", "matmul", "precision", "all"],
)
def test_tf32_is_off_in_a_body_however_it_was_allowed(allow):
    with CellSettings().in_force(None):
        allow()
        before = _known()
        with without_tf32():
            backends = torch.backends
            for part in (backends.cuda.matmul, backends.cudnn.conv, backends.cudnn.rnn):
                assert part.fp32_precision == "ieee"
            assert not torch.backends.cudnn.allow_tf32
        assert _known() == before
