"""A bisection of this project's own history: what made its Hopper attention kernel faster.

The sources of the kernel as five commits left them, in a repository of their own, with one workload
that launches them all (later commits changed how it is called). Commit d95940e says of itself: 3 %
less at a length of 4096, with 192 rows a block: `bisect` shall name it.

    python benchmarks/history/own_kernel.py FOLDER      (needs the history of this repository)
    cd FOLDER && python -m profiler bisect first..HEAD attention.yaml      (needs an H100 or H200)
"""

from __future__ import annotations

import argparse
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COMMITS = ("e0379930", "d95940e3", "331cb807", "14ca53a3", "d0eaab0b")
"""Those that changed the sources before `kv_heads_first` became an argument of the launch."""
SOURCES = "kernels/flash_attention_hopper/src"
IDENTITY = ("-c", "user.name=profiler", "-c", "user.email=profiler@localhost")
SPEC = """
name: attention
workload: {module: ./workload.py, space: ./space.py}
variants: {list: [{name: 192x80, params: {rows: 192, columns: 80}}]}
margin_pct: 0.5  # the step is one of 1 %: within a margin of 1 % it stays UNCLEAR
problems: {list: [{name: length 4096, params: {batch: 16, length: 4096, heads: 16}}]}
collect: {metrics: [duration_ns, cycles], blocks: [8, 16, 32]}
"""
SPACE = """
from pathlib import Path

from profiler.kernels.recipe import Recipe

FIELDS = {
    **{"DTYPE": 15, "D_HEAD": 128, "CONSUMERS": 3, "BLOCK_COLS": 80, "STAGES": 2},
    **dict.fromkeys(("PRODUCER", "OVERLAP", "PING_PONG", "LAZY_RESCALE", "TENSOR_STORE"), 1),
    **{"PERSISTENT": 1, "HEADS_INNERMOST": 0},
}


def recipe(params):
    source = Path(__file__).resolve().parent / "src" / "flash_attention_hopper.cu"
    return Recipe(sources=(source,), defines=FIELDS, arch="sm_90a")
"""
WORKLOAD = """
import ctypes

import torch

from profiler.kernels.library import KernelLibrary

TOLERANCES = {"bfloat16": (2e-2, 2e-2)}


def make_inputs(problem, device, seed):
    generator = torch.Generator(device=device).manual_seed(seed)
    shape = (3, problem["batch"], problem["length"], problem["heads"], 128)
    return torch.randn(shape, generator=generator, device=device, dtype=torch.bfloat16)


def reference(problem, inputs):
    q, k, v = (part.transpose(1, 2) for part in inputs)
    return torch.nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2)


def prepare(variant, problem, inputs, library):
    library = KernelLibrary(library, "flash_attention_hopper")
    types = [*[ctypes.c_void_p] * 4, *[ctypes.c_int] * 3, ctypes.c_void_p]
    launch = library.function("launch", *types)
    output = torch.empty_like(inputs[0])
    pointers = [tensor.data_ptr() for tensor in (*inputs, output)]
    sizes = [problem[name] for name in ("batch", "length", "heads")]

    def call():
        launch(*pointers, *sizes, torch.cuda.current_stream().cuda_stream)
        return output

    call.outputs = (output,)
    return call


def flops(problem):
    return 4 * problem["batch"] * problem["heads"] * problem["length"] ** 2 * 128
"""


def git(folder: Path, *arguments: str) -> str:
    """What git prints."""
    command = ["git", "-C", str(folder), *IDENTITY, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def make_repository(folder: Path) -> None:
    """Write the repository; its first commit has the tag `first`."""
    folder.mkdir(parents=True)
    git(folder, "init", "--quiet")
    files = {"attention.yaml": SPEC, "space.py": SPACE, "workload.py": WORKLOAD}
    for name, text in {**files, ".gitignore": "reports/\n"}.items():
        (folder / name).write_text(text)
    (folder / "src").mkdir()
    for commit in COMMITS:
        for path in git(ROOT, "ls-tree", "--name-only", commit, f"{SOURCES}/").split():
            (folder / "src" / Path(path).name).write_text(git(ROOT, "show", f"{commit}:{path}"))
        git(folder, "add", "--all")
        subject = git(ROOT, "show", "--no-patch", "--format=%h: %s", commit).strip()
        git(folder, "commit", "--quiet", "--message", subject)
        if commit == COMMITS[0]:
            git(folder, "tag", "first")


def main() -> None:
    """Write the repository into the folder that is named."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    make_repository(parser.parse_args().folder)


if __name__ == "__main__":
    main()
