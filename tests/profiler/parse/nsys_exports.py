"""Small SQLite exports as nsys writes them, made in a test."""

import sqlite3
from contextlib import closing

PROCESS = 0x1000001 << 24
"""Serialised id of process 1 of the first machine; its main thread is MAIN."""
MAIN = PROCESS + 1
WORKER = PROCESS + 77
OTHER_PROCESS = 0x1000009 << 24
PUSH_POP, START_END, MARK, DOMAIN = 59, 60, 34, 75

_PLACE = ["start", "end", "deviceId", "contextId", "streamId", "correlationId", "globalPid"]
_GRID = [f"{what}{axis}" for what in ("grid", "block") for axis in "XYZ"]
COLUMNS = {
    "META_DATA_EXPORT": ["name", "value"],
    "StringIds": ["id", "value"],
    "CUPTI_ACTIVITY_KIND_KERNEL": [
        *_PLACE,
        *("demangledName", "shortName", "registersPerThread", *_GRID),
        *("staticSharedMemory", "dynamicSharedMemory", "graphNodeId"),
    ],
    "CUPTI_ACTIVITY_KIND_MEMCPY": [*_PLACE, "bytes", "copyKind", "graphNodeId"],
    "CUPTI_ACTIVITY_KIND_MEMSET": [*_PLACE, "bytes", "value", "graphNodeId"],
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": [*_PLACE, "graphId", "graphExecId"],
    "CUPTI_ACTIVITY_KIND_RUNTIME": [
        *("start", "end", "eventClass", "globalTid", "correlationId", "nameId", "returnValue")
    ],
    "NVTX_EVENTS": [
        *("start", "end", "eventType", "rangeId", "color", "text", "globalTid", "endGlobalTid"),
        *("textId", "domainId"),
    ],
    "ENUM_CUDA_MEMCPY_OPER": ["id", "name", "label"],
}
_DEFAULTS = {
    "deviceId": 0,
    "contextId": 1,
    "streamId": 7,
    "globalPid": PROCESS,
    "globalTid": MAIN,
    "eventType": PUSH_POP,
    "domainId": 0,
    "eventClass": 0,
    "returnValue": 0,
    "bytes": 4,
    "copyKind": 1,
    **dict.fromkeys(_GRID, 1),
}


class ExportFile:
    """An export under construction: rows are given by column name, the rest gets defaults."""

    def __init__(self, path, *, drop=()):
        """Write to `path`; `drop`: pairs of table and column that this schema lacks."""
        self.path = path
        self._drop = set(drop)
        self._strings = {}
        self.execute("CREATE TABLE META_DATA_EXPORT (name TEXT, value TEXT)")
        self.add("META_DATA_EXPORT", name="EXPORT_PRODUCT_NAME", value="NVIDIA Nsight Systems")
        self.add("META_DATA_EXPORT", name="EXPORT_SCHEMA_VERSION", value="9.9.9")

    def execute(self, statement, values=()):
        with closing(sqlite3.connect(self.path)) as connection, connection:
            # Nobody waits for the disk: a file of 40 launches took two seconds.
            connection.executescript("PRAGMA synchronous = OFF; PRAGMA journal_mode = MEMORY")
            connection.execute(statement, values)

    def add(self, table, **values):
        columns = [name for name in COLUMNS[table] if (table, name) not in self._drop]
        self.execute(f"CREATE TABLE IF NOT EXISTS {table} ({', '.join(map(quoted, columns))})")
        row = [values.get(name, _DEFAULTS.get(name)) for name in columns]
        marks = ", ".join("?" * len(row))
        self.execute(f"INSERT INTO {table} VALUES ({marks})", row)  # noqa: S608 - our own names

    def string(self, text):
        """Id of a registered string."""
        if text not in self._strings:
            self._strings[text] = len(self._strings) + 1
            self.add("StringIds", id=self._strings[text], value=text)
        return self._strings[text]

    def range(self, start, end, text=None, **values):
        self.add("NVTX_EVENTS", start=start, end=end, text=text, **values)

    def call(self, start, correlation, name="cudaLaunchKernel_v7000", **values):
        values = {"end": start + 1, "nameId": self.string(name), **values}
        table = "CUPTI_ACTIVITY_KIND_RUNTIME"
        self.add(table, start=start, correlationId=correlation, **values)

    def kernel(self, start, end, correlation, name="k", **values):
        names = {"shortName": self.string(name), "demangledName": self.string(f"void {name}<1>()")}
        table = "CUPTI_ACTIVITY_KIND_KERNEL"
        self.add(table, start=start, end=end, correlationId=correlation, **names, **values)

    def launch(self, at, start, correlation, thread=MAIN, **values):
        """A call on a thread, and the kernel that it launches, 10 ns long."""
        self.call(at, correlation, globalTid=thread)
        pid = thread >> 24 << 24
        self.kernel(start, start + 10, correlation, globalPid=pid, **values)


def quoted(name):
    return f'"{name}"'
