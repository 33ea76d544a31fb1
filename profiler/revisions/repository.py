"""The git repository of an experiment: its commits, and a folder with the files of each.

Only git itself is asked; neither the branch, the index nor the files of the user are touched.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from profiler.errors import EnvironmentUnusable, UsageError
from profiler.outside_text import safe

_SHORT = 10
"""Digits of a commit in names; git's own abbreviation may grow with the repository."""
_DESCRIBE = ("show", "--no-patch", "--no-show-signature", "--format=%H%x00%cs%x00%s")
WORKING_TREE = "."
"""Revision that stands for the working tree's tracked files, edited or not."""


@dataclass(frozen=True)
class Commit:
    """One commit of a repository."""

    hash: str
    date: str
    """Date of the committer, YYYY-MM-DD."""
    subject: str

    @property
    def short(self) -> str:
        """First digits of the hash, which name a variant."""
        return self.hash[:_SHORT]

    @property
    def line(self) -> str:
        """Short hash, date and subject on a line."""
        return f"{self.short} ({self.date}) {self.subject}"


@dataclass(frozen=True)
class Repository:
    """A git repository on this machine."""

    root: Path
    """Top folder of its working tree."""

    @classmethod
    def of(cls, file: Path) -> Repository:
        """The repository of a file or folder; UsageError without one."""
        folder = file.resolve()
        while not folder.is_dir():
            folder = folder.parent
        top = _git(folder, "rev-parse", "--show-toplevel", check=False).strip()
        if not top:
            raise UsageError(
                f"{file}: lies in no git repository",
                remedy="Revisions are those of the repository that the experiment lies in.",
            )
        return cls(Path(top))

    def commit(self, revision: str) -> Commit:
        """The commit of a revision; `.` is the working tree, as a commit without a branch.

        Raises UsageError where there is no such commit.
        """
        if revision == WORKING_TREE:
            stash = _git(self.root, "stash", "create").strip()
            revision = stash or "HEAD"
        commit_hash = _git(
            self.root,
            *("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}"),
            check=False,
        )
        # Of a range git gives the hashes of both ends, and of an exclusion one behind a `^`.
        if not commit_hash.strip().isalnum():
            raise UsageError(
                f"{revision}: no commit of the repository {self.root.name}",
                remedy="`git log` shows those that there are; in CI fetch the history "
                "(fetch-depth: 0).",
            )
        return self._described_commits([commit_hash.strip()])[0]

    def merge_base(self, revision: str, other_revision: str) -> Commit:
        """The newest common commit of two revisions; UsageError without one."""
        names = (self.commit(revision).hash, self.commit(other_revision).hash)
        base = _git(self.root, "merge-base", *names, check=False).strip()
        if not base:
            raise UsageError(f"{revision} and {other_revision} have no commit in common")
        return self.commit(base)

    def history(self, good: Commit, bad: Commit) -> tuple[Commit, ...]:
        """Commits from `good` to `bad`, both included, the oldest first.

        Along the first parents, so that each follows from the one before it: what a merge brought
        is one step. Raises UsageError where `good` is not there.
        """
        names = _git(
            self.root, "rev-list", "--reverse", "--first-parent", f"{good.hash}..{bad.hash}"
        ).split()
        parents = _git(self.root, "rev-list", "--first-parent", bad.hash).split()
        if good.hash not in parents:
            raise UsageError(
                f"{good.short} is no ancestor of {bad.short} along its first parents",
                remedy="Give the older revision first: GOOD..BAD, of one branch.",
            )
        return (good, *self._described_commits(names))

    def files(self, commit: Commit) -> dict[str, str]:
        """Object of each file of a commit by its path from the root; submodules are left out."""
        lines = _git(self.root, "ls-tree", "-r", "-z", "--full-tree", commit.hash).split("\0")
        entries = (line.split("\t", 1) for line in lines if line)
        return {path: entry.split()[2] for entry, path in entries if " blob " in entry}

    def tree(self, commit: Commit, folder: Path) -> Path:
        """Folder with the files of a commit under `folder`, written if missing.

        Submodules are empty, as `git clone` leaves them.
        """
        target = folder / commit.hash
        if target.is_dir():
            return target
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=".tree-") as temporary:
            tree, index = Path(temporary, "files"), Path(temporary, "index")
            tree.mkdir()
            environment = {**os.environ, "GIT_INDEX_FILE": str(index)}
            _git(
                self.root,
                f"--work-tree={tree}",
                *("read-tree", "-m", "-u", commit.hash),
                environment=environment,
            )
            try:
                tree.rename(target)
            except OSError:
                if not target.is_dir():  # else another process was quicker
                    raise
                shutil.rmtree(tree, ignore_errors=True)
        return target

    def diff(self, old: Commit, new: Commit, paths: Sequence[str] = ()) -> str:
        """Difference of files between two commits, in the format of `git diff`."""
        return _git(
            self.root, "diff", "--no-color", "--no-ext-diff", old.hash, new.hash, "--", *paths
        )

    def changed_files(self, old: Commit, new: Commit) -> tuple[str, ...]:
        """Paths of the files that differ between two commits."""
        return tuple(_git(self.root, "diff", "--name-only", old.hash, new.hash).splitlines())

    def _described_commits(self, hashes: Sequence[str]) -> tuple[Commit, ...]:
        if not hashes:
            return ()
        described = _git(self.root, *_DESCRIBE, *hashes)
        # Subjects may hold what ends a line elsewhere, and control characters.
        lines = described.removesuffix("\n").split("\n")
        return tuple(Commit(*map(safe, line.split("\0"))) for line in lines)


_SETTINGS = (
    *("-c", "core.quotePath=false"),
    *("-c", "user.name=profiler", "-c", "user.email=profiler@localhost"),  # of stashed commits
)


def _git(
    folder: Path, *arguments: str, check: bool = True, environment: dict[str, str] | None = None
) -> str:
    """Output of git; EnvironmentUnusable where git is missing, or fails and `check` is set."""
    try:
        completed = subprocess.run(
            ["git", "-C", str(folder), *_SETTINGS, *arguments],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            env=environment,
            text=True,
            errors="replace",
            check=False,
        )
    except OSError as error:
        raise EnvironmentUnusable(f"git cannot be started: {error}") from error
    if check and completed.returncode:
        reason = completed.stderr.strip() or f"exit code {completed.returncode}"
        raise EnvironmentUnusable(f"git {arguments[0]}: {reason}")
    return completed.stdout
