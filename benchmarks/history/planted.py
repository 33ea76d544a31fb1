"""Whether `profiler bisect` finds a barrier that was planted in one of 16 commits, and says why.

A git repository of one kernel is made in a temporary folder: sums of rows, by trees in
shared memory.
Its commits change comments, names, code that costs nothing, and one does not compile; one adds a
barrier to each step of the tree. Then `bisect` runs in it. Exits 1 where it names another commit,
or no barriers.

    python benchmarks/history/planted.py [--only-repository FOLDER] [arguments of bisect]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
IDENTITY = ("-c", "user.name=profiler", "-c", "user.email=profiler@localhost")
PLANTED = "Trees wait for one another"
KERNEL = """
// Sums of the rows of a matrix: a tree in shared memory for each 1024 columns.
__global__ void sum_rows(const float* x, float* out, int columns) {
    __shared__ float part[256];
    const float* row = x + static_cast<long long>(blockIdx.x) * columns;
    float total = 0;
    for (int first = 0; first < columns; first += 1024) {
        float own = 0;
        for (int k = 0; k < 1024; k += 256) own += row[first + k + threadIdx.x];
        part[threadIdx.x] = own;
        for (int step = 128; step > 0; step /= 2) {
            __syncthreads();
            if (threadIdx.x < step) part[threadIdx.x] += part[threadIdx.x + step];
        }
        __syncthreads();
        if (threadIdx.x == 0) total += part[0];
        __syncthreads();
    }
    if (threadIdx.x == 0) out[blockIdx.x] = total;
}
"""
SPEC = """
name: sums
workload:
  source: sums.cu
  kernel: sum_rows
  arguments: {x: {shape: [rows, columns]}, out: {shape: [rows], output: true}, columns}
  grid: rows
  block: 256
  reference: x.sum(dim=1)
  bytes: 4 * rows * (columns + 1)
variants: {list: [{name: trees, params: {block: 256}}]}
problems: {list: [{name: "16384 rows", params: {rows: 16384, columns: 8192}}]}
tolerance: {default: {absolute: 1.0e-3, relative: 1.0e-3}}
collect: {metrics: [duration_ns, cycles], blocks: [8, 16, 32]}
"""
EDITS = (
    ("Says what a row is", "float total = 0;", "float total = 0;  // of the row"),
    ("A shorter name", "part", "sums"),
    ("The last thread writes", "if (threadIdx.x == 0) out", "if (threadIdx.x == 255) out"),
    (
        "The last thread adds",
        "threadIdx.x == 0) total += sums",
        "threadIdx.x == 255) total += sums",
    ),
    ("Begins a rewrite", "float own = 0;", "float own = 0"),
    ("Ends it", "float own = 0", "float own = 0;"),
    ("Says what own is", "float own = 0;", "float own = 0;  // of this thread"),
    (
        PLANTED,
        "if (threadIdx.x < step) sums[threadIdx.x] += sums[threadIdx.x + step];",
        "const float other = sums[threadIdx.x < step ? threadIdx.x + step : 0];\n"
        "            __syncthreads();\n"
        "            if (threadIdx.x < step) sums[threadIdx.x] += other;",
    ),
    ("A comment on steps", "step /= 2) {", "step /= 2) {  // halves"),
    ("Constants have names", "__global__", "constexpr int kChunk = 1024;\n__global__"),
    ("One of them is used", "first += 1024", "first += kChunk"),
    ("And here", "k < 1024", "k < kChunk"),
    ("The second thread adds and writes", "(threadIdx.x == 255)", "(threadIdx.x == 1)"),
    ("Says what a row is in memory", "const float* row", "/* contiguous */ const float* row"),
    ("Says how wide a block is", "__shared__", "// 256 threads\n    __shared__"),
)


def versions() -> Iterator[tuple[str, str]]:
    """Subject and source of each commit."""
    source = KERNEL
    yield "Sums of rows", source
    for subject, old, new in EDITS:
        if old not in source:
            raise ValueError(f"{subject}: {old!r} is not there")
        source = source.replace(old, new)
        yield subject, source


def git(folder: Path, *arguments: str) -> str:
    """What git prints."""
    command = ["git", "-C", str(folder), *IDENTITY, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def make_repository(folder: Path) -> dict[str, str]:
    """Write the repository; hashes of its commits by subject, the oldest first."""
    git(folder, "init", "--quiet")
    (folder / "sums.yaml").write_text(SPEC)
    (folder / ".gitignore").write_text("reports/\n")
    hashes = {}
    for subject, source in versions():
        (folder / "sums.cu").write_text(source)
        git(folder, "add", "--all")
        git(folder, "commit", "--quiet", "--message", subject)
        hashes[subject] = git(folder, "rev-parse", "HEAD")
    return hashes


def main() -> int:
    """Bisect, print the answer; 1 where it is not the planted commit."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only-repository", type=Path, help="Write it there, and no more.")
    asked, more = parser.parse_known_args()
    if asked.only_repository is not None:
        asked.only_repository.mkdir(parents=True)
        make_repository(asked.only_repository)
        return 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        hashes = make_repository(folder)
        path = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        began = time.monotonic()
        first = next(iter(hashes.values()))
        command = [sys.executable, "-m", "profiler", "bisect", f"{first}..HEAD", "sums.yaml"]
        done = subprocess.run(
            [*command, "--json", "found.json", *more],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path)},
            check=False,
        )
        seconds = time.monotonic() - began
        if done.returncode:
            return done.returncode
        steps = json.loads((folder / "found.json").read_text())["steps"]
    found = [step["commit"] for step in steps if step["state"] == "found"]
    right = found == [hashes[PLANTED]]
    named = any("barriers" in sentence for step in steps for sentence in step["why"])
    cause = "its cause" if named else "NOT its cause"
    print(f"{'the planted commit' if right else 'WRONG'}, {cause}, {seconds:.0f} s")
    return 0 if right and named else 1


if __name__ == "__main__":
    sys.exit(main())
