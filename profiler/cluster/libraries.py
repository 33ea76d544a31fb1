"""Built libraries on their way to workers: by the hash of their content, each sent once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from weakref import WeakValueDictionary

from distributed import Client, Future

from profiler.cluster.parcels import content_hash


@dataclass
class Libraries:
    """Libraries as data of Dask, which moves each to a worker when a task there first needs it.

    As results of tasks and not as scattered data: where the only worker that has one dies, the
    scheduler still knows how to make it again. Each is there as long as somebody has its future.
    """

    client: Client
    _digests: dict[str, str] = field(default_factory=dict)
    """Path of a library → hash of its content."""
    _futures: WeakValueDictionary[str, Future[bytes]] = field(default_factory=WeakValueDictionary)

    def digest(self, path: str) -> str:
        """Hash of the content of a library."""
        if path not in self._digests:
            self._digests[path] = content_hash(Path(path).read_bytes())
        return self._digests[path]

    def futures(self, paths: Iterable[str | None]) -> dict[str, Future[bytes]]:
        """Libraries on their way to workers, by the hashes of their contents."""
        return {self.digest(path): self._future(path) for path in paths if path is not None}

    def _future(self, path: str) -> Future[bytes]:
        digest = self.digest(path)
        future = self._futures.get(digest)
        if future is None:
            content = Path(path).read_bytes()
            future = self.client.submit(bytes, content, key=f"library-{digest}", pure=True)
            self._futures[digest] = future
        return future
