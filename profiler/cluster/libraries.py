"""Built libraries on their way to workers: by the hash of their content, each sent once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from distributed import Client, Future

from profiler.cluster.job import Job
from profiler.cluster.parcels import content_hash
from profiler.model import BuildResult, Plan


@dataclass(frozen=True)
class Libraries:
    """Builds of a run, and their libraries as data of Dask."""

    builds: tuple[BuildResult, ...]
    stamped: Mapping[str, str]
    """Variant id → path of its library with stamps."""
    _digests: Mapping[str, str]
    """Path of a library → hash of its content."""
    _futures: Mapping[str, Future[bytes]] = field(default_factory=dict)
    """Hash → library at the workers."""

    def sent_builds(self, builds: Sequence[BuildResult]) -> tuple[BuildResult, ...]:
        """Builds whose libraries are hashes."""
        return tuple(
            replace(build, library=self._digests[build.library]) if build.library else build
            for build in builds
        )

    def sent_stamped(self, plan: Plan) -> dict[str, str]:
        """Variant id → hash of its library with stamps, of the variants of a plan."""
        variants = {variant.id for variant in plan.variants}
        return {id_: self._digests[path] for id_, path in self.stamped.items() if id_ in variants}

    def futures(self, job: Job) -> dict[str, Future[bytes]]:
        """Libraries that an order names, by their hashes."""
        named = {build.library for build in job.builds} | set(job.stamped.values())
        return {digest: self._futures[digest] for digest in named if digest is not None}


def sent_libraries(
    client: Client, builds: Sequence[BuildResult], stamped: Mapping[str, str]
) -> Libraries:
    """Give libraries to Dask, which moves each to a worker when a task there first needs it.

    As results of tasks and not as scattered data: where the only worker that has one dies, the
    scheduler still knows how to make it again.
    """
    paths = {build.library for build in builds if build.library} | set(stamped.values())
    contents = {path: Path(path).read_bytes() for path in sorted(paths)}
    digests = {path: content_hash(content) for path, content in contents.items()}
    by_digest = {digests[path]: content for path, content in contents.items()}
    futures = {digest: _library(client, digest, content) for digest, content in by_digest.items()}
    return Libraries(tuple(builds), dict(stamped), digests, futures)


class LibraryShelf:
    """Libraries of a search at the workers: sent when a batch needs them, kept while one may."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._digests: dict[str, str] = {}
        """Path → hash of its content."""
        self._futures: dict[str, Future[bytes]] = {}
        """Hash → library at the workers."""

    def sent(self, builds: Sequence[BuildResult]) -> tuple[BuildResult, ...]:
        """Builds whose libraries are hashes; the libraries are on their way."""
        return tuple(
            replace(build, library=self._send(build.library)) if build.library else build
            for build in builds
        )

    def futures(self, sent: Sequence[BuildResult]) -> dict[str, Future[bytes]]:
        """Libraries of builds that `sent` gave, by their hashes."""
        digests = {build.library for build in sent if build.library is not None}
        return {digest: self._futures[digest] for digest in digests}

    def keep_only(self, builds: Sequence[BuildResult]) -> None:
        """Let go of the libraries of all other builds; those of a batch under way stay with it."""
        digests = {self._digests.get(str(build.library)) for build in builds}
        self._futures = {key: value for key, value in self._futures.items() if key in digests}

    def _send(self, path: str) -> str:
        if path not in self._digests:
            self._digests[path] = content_hash(Path(path).read_bytes())
        digest = self._digests[path]
        if digest not in self._futures:
            self._futures[digest] = _library(self._client, digest, Path(path).read_bytes())
        return digest


def _library(client: Client, digest: str, content: bytes) -> Future[bytes]:
    return client.submit(bytes, content, key=f"library-{digest}", pure=True)
