"""Objects made by the real nvcc: what must and what must not change the identity of a program."""

import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest

from profiler.errors import ParseError
from profiler.parse.machine_code import code_hash

pytestmark = pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")

PROGRAM = """
#include <cuda_runtime.h>

extern "C" __global__ void scale(float* x, int n) {
  __shared__ float tile[64];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  tile[threadIdx.x % 64] = x[i];
  __syncthreads();
  if (i < n) x[i] = tile[(threadIdx.x * 7) % 64] * 3.75f;
}

namespace inner {
template <typename T>
__global__ void shift(T* x) { x[threadIdx.x] += T(2); }
}

extern "C" int launch(void* x, int n, cudaStream_t stream) {
  scale<<<n / 256, 256, 0, stream>>>(static_cast<float*>(x), n);
  inner::shift<<<1, 64, 0, stream>>>(static_cast<float*>(x));
  inner::shift<<<2, 64, 0, stream>>>(static_cast<int*>(x));
  return cudaGetLastError();
}
"""

SOURCES = {
    "original": PROGRAM,
    # Other names, every line elsewhere, and a type that changes nothing.
    "reworded": "// Moves every line.\n\n"
    + PROGRAM.replace("scale", "a_much_longer_name")
    .replace("shift", "z")
    .replace("int i = ", "const int i = "),
    "shared": PROGRAM.replace("tile[64]", "tile[128]"),
    "block": PROGRAM.replace("n / 256, 256", "n / 512, 512"),
    # The same kernels and the same launches, but each launch reaches the other kernel.
    "swapped": PROGRAM.replace("static_cast<float*>(x));\n", "static_cast<?*>(x));\n")
    .replace("static_cast<int*>", "static_cast<float*>")
    .replace("static_cast<?*>", "static_cast<int*>"),
}
LINES = ("-lineinfo",)
WITHOUT_LINES = ("-DNEVER_READ=7", "-maxrregcount=128")
"""And with a limit that binds nothing."""


def command(folder, source, output, arch, flags):
    gencode = ("-gencode", f"arch=compute_{arch},code=sm_{arch}")
    compile_only = ("nvcc", "-c", "-O3", "--no-compress", *gencode, *flags)
    return [*compile_only, str(folder / source), "-o", str(folder / output)]


def run_two_at_a_time(commands):
    with ThreadPoolExecutor(2) as pool:
        for done in pool.map(lambda each: subprocess.run(each, check=False), commands):
            assert done.returncode == 0


@pytest.fixture(scope="module")
def objects(tmp_path_factory):
    """Object file of each source by name; one of them by other options."""
    folder = tmp_path_factory.mktemp("objects")
    commands = {}
    for name, text in SOURCES.items():
        (folder / f"{name}.cu").write_text(text)
        flags = WITHOUT_LINES if name == "reworded" else LINES
        commands[name] = command(folder, f"{name}.cu", f"{name}.o", "90", flags)
    commands["other_arch"] = command(folder, "original.cu", "other_arch.o", "80", LINES)
    run_two_at_a_time(commands.values())
    return {name: folder / f"{name}.o" for name in commands}


@pytest.fixture(scope="module")
def hashes(objects):
    return {name: code_hash(file) for name, file in objects.items()}


def test_names_lines_and_options_do_not_change_the_program(hashes):
    assert hashes["reworded"] == hashes["original"]


def test_all_changes_of_the_program_differ_from_each_other(hashes):
    assert len(set(hashes.values())) == len(hashes) - 1


def test_compressed_device_code_is_refused(tmp_path):
    (tmp_path / "k.cu").write_text('extern "C" __global__ void k(int* x) { *x = 1; }\n')
    options = ("-c", "-gencode", "arch=compute_90,code=sm_90", "-Xfatbin", "-compress-all")
    subprocess.run(["nvcc", *options, "k.cu", "-o", "k.o"], cwd=tmp_path, check=True)
    with pytest.raises(ParseError, match="compressed"):
        code_hash(tmp_path / "k.o")


def test_the_order_of_objects_counts_and_their_folder_does_not(tmp_path):
    for name, value in (("one", 1), ("two", 2)):
        (tmp_path / f"{name}.c").write_text(f"int {name}(void) {{ return {value}; }}\n")
        source, output = f"{name}.c", f"{name}.o"
        subprocess.run(["gcc", "-c", source, "-o", output], cwd=tmp_path, check=True)
    one, two = tmp_path / "one.o", tmp_path / "two.o"
    moved = tmp_path / "moved.o"
    moved.write_bytes(one.read_bytes())
    assert code_hash(one) == code_hash(moved)
    assert code_hash(one) != code_hash(two)
    assert code_hash(one, two) != code_hash(one)


@pytest.mark.parametrize("content", [b"", b"not an object", b"\x7fELF", b"\x7fELF\x02\x01\x01" * 9])
def test_what_is_no_object(tmp_path, content):
    path = tmp_path / "broken.o"
    path.write_bytes(content)
    with pytest.raises(ParseError, match=r"broken\.o"):
        code_hash(path)


def test_an_object_cut_off_anywhere_raises_nothing_but_our_own_error(objects, tmp_path):
    original = objects["original"].read_bytes()
    cut = tmp_path / "cut.o"
    for end in range(0, len(original), max(1, len(original) // 60)):
        cut.write_bytes(original[:end])
        with pytest.raises(ParseError):
            code_hash(cut)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(ParseError, match="cannot be opened"):
        code_hash(tmp_path / "missing.o")
