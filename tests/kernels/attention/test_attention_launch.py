import ctypes
from pathlib import Path

import pytest
import torch

from attention import launch
from attention.implementations import SDPA
from attention.inputs import Attention

SHAPE = (2, 50, 3, 64)
HEADS_FIRST = (2, 3, 50, 64)


def tensor(shape=SHAPE, **options):
    return torch.zeros(shape, **{"dtype": torch.bfloat16, **options})


def attention(**changes):
    names = ("query", "key", "value", "output")
    return Attention(**{**{name: tensor() for name in names}, **changes})


def guard(tensors, **options):
    launch.guard_tensors(tensors, dtype="BF16", d_head=64, **options)


def test_every_reference_has_a_backend():
    assert set(launch.BACKENDS) == set(SDPA)


def test_good_tensors_pass():
    guard(attention())
    turned = attention(key=tensor(HEADS_FIRST), value=tensor(HEADS_FIRST))
    guard(turned, kv_heads_first=True)
    with pytest.raises(ValueError, match=r"k is .2, 3, 50, 64., but q is"):
        guard(turned)
    with pytest.raises(ValueError, match=r"k is .2, 50, 3, 64., but q is"):
        guard(attention(), kv_heads_first=True)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"query": tensor((50, 3, 64))}, "q must be .batch, seq_len, heads, d_head."),
        ({"query": tensor((2, 50, 3, 128))}, "the kernel is for d_head = 64, q has 128"),
        ({"key": tensor((2, 49, 3, 64))}, "k is .2, 49, 3, 64., but q is .2, 50, 3, 64."),
        ({"value": tensor((2, 50, 1, 64))}, "v is .2, 50, 1, 64., but q is"),
        ({"output": tensor((2, 50, 3, 32))}, "the output is .2, 50, 3, 32., but q is"),
        ({"key": tensor(dtype=torch.float32)}, "the kernel is for torch.bfloat16, k is torch.fl"),
        ({"value": tensor(device="meta")}, "v is on meta, but q is on cpu"),
        ({"query": tensor(HEADS_FIRST).transpose(1, 2)}, "q is not contiguous"),
        ({"key": tensor(19201)[1:].view(SHAPE)}, "k is not aligned to 16 bytes"),
    ],
)
def test_tensors_that_a_kernel_cannot_take(changes, words):
    with pytest.raises(ValueError, match=words):
        guard(attention(**changes))


def test_a_compiled_kernel_needs_a_device_and_a_library(tmp_path):
    cuda = torch.device("cuda")
    assert launch.built_library(cuda, tmp_path) == tmp_path
    with pytest.raises(RuntimeError, match="needs its built library, and got none"):
        launch.built_library(cuda, None)
    with pytest.raises(RuntimeError, match="needs a CUDA device and cannot run on cpu"):
        launch.built_library(torch.device("cpu"), tmp_path)


def test_a_library_gets_addresses_sizes_options_and_the_stream(monkeypatch):
    calls = []

    class Library:
        def __init__(self, path, prefix):
            calls.append((path, prefix))

        def function(self, name, *types):
            calls.append((name, types))
            return lambda *arguments: calls.append(arguments)

    class Stream:
        cuda_stream = 7

    monkeypatch.setattr(launch, "KernelLibrary", Library)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: Stream)
    tensors = attention()
    started = launch.LibraryLaunch(Path("library.so"), "flash", tensors, 1)
    assert started.outputs == (tensors.output,)
    assert started() is tensors.output
    addresses = [getattr(tensors, name).data_ptr() for name in ("query", "key", "value", "output")]
    assert calls == [
        (Path("library.so"), "flash"),
        ("launch", (*[ctypes.c_void_p] * 4, *[ctypes.c_int] * 4, ctypes.c_void_p)),
        (*addresses, 2, 50, 3, 1, 7),
    ]
