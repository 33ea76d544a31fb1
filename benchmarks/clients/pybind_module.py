"""A module of pybind11 that takes NumPy arrays; needs `pybind11` and a C++ compiler."""

import importlib.util
import subprocess
import sysconfig
import tempfile
from pathlib import Path

import numpy as np
import pybind11

import profiler

SOURCE = """
#include <pybind11/numpy.h>
namespace py = pybind11;
using Matrix = py::array_t<float, py::array::c_style | py::array::forcecast>;
template <bool BY_ROWS> Matrix transposed(const Matrix& x) {
    const auto in = x.unchecked<2>();
    Matrix out({in.shape(1), in.shape(0)});
    auto result = out.mutable_unchecked<2>();
    const long block = BY_ROWS ? in.shape(0) : 16;
    for (long first = 0; first < in.shape(0); first += block)
        for (long column = 0; column < in.shape(1); ++column)
            for (long row = first; row < std::min(first + block, (long)in.shape(0)); ++row)
                result(column, row) = in(row, column);
    return out;
}
PYBIND11_MODULE(transposes, module) {
    module.def("whole", &transposed<true>);
    module.def("blocked", &transposed<false>);
}
"""
folder = Path(tempfile.mkdtemp())
path = folder / f"transposes{sysconfig.get_config_var('EXT_SUFFIX')}"
(folder / "transposes.cpp").write_text(SOURCE)
includes = [f"-I{pybind11.get_include()}", f"-I{sysconfig.get_path('include')}"]
command = ["c++", "-O2", "-std=c++17", "-shared", "-fPIC", *includes]
subprocess.run([*command, "transposes.cpp", "-o", path], cwd=folder, check=True)
spec = importlib.util.spec_from_file_location("transposes", path)
transposes = importlib.util.module_from_spec(spec)
spec.loader.exec_module(transposes)

moved = profiler.Experiment("pybind-module", problems={"n": [512, 1024]})


@moved.inputs
def inputs(n):
    return np.random.rand(n, n).astype("float32")


@moved.variant(baseline=True)
def numpy_copy(x):
    return np.ascontiguousarray(x.T)


@moved.variant(function_name=["whole", "blocked"])
def in_cpp(x, function_name):
    return getattr(transposes, function_name)(x)


@moved.variant
def forgets_to_transpose(x):
    return x.copy()
