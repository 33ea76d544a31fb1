"""Landlock: limits the files that a process and its children may read and write.

By three system calls, without any rights of its own (linux/landlock.h, kernel 5.13 and later).
Landlock also keeps a process from the memory of others (ptrace, /proc/PID/mem), from the network by
TCP (6.7) and from signals to processes outside of it (6.12).
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

_CREATE, _ADD, _RESTRICT = 444, 445, 446
"""Numbers of the system calls, the same on every architecture."""
_ASK_VERSION = 1
_PATH_BENEATH = 1
_NO_NEW_PRIVILEGES = 38  # linux/prctl.h
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_FOLDER = 1, 2, 4, 8
_ACCESS_BY_VERSION = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
"""Number of rights on files by version; later versions have the fifth's."""
_NET_SINCE, _TCP = 4, 0b11
_SCOPES_SINCE, _SCOPES = 6, 0b11
_ON_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | 1 << 14 | 1 << 15
"""Rights that a file may have: truncating and ioctl as well."""
SYSTEM = (
    *("/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin", "/etc", "/opt", "/nix", "/run", "/sys"),
    *("/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/devices"),
    *("/proc/driver", "/proc/modules", "/proc/sys", "/proc/version"),
)
"""Paths of programs, libraries, drivers and facts of the machine, but of no other process."""
DEVICES = (
    *("null", "zero", "full", "random", "urandom", "shm"),
    *("nvidia*", "nvidia-caps/*", "dri", "kfd"),
)
"""Devices that a process may write, beside its own folder; with wildcards."""
OWN_THREADS = "/proc/self/task"
"""CUDA gives its threads names by writing them here, and cannot begin where it may not."""


def landlock_version() -> int:
    """Version of Landlock that this kernel has; 0 without it."""
    version: int = _libc().syscall(_CREATE, None, ctypes.c_size_t(0), _ASK_VERSION)
    return max(version, 0)


def confine(readable: Iterable[str], writable: Iterable[str]) -> bool:
    """Whether this process could be limited to reading and writing given folders and files.

    Every process keeps SYSTEM and DEVICES. The limits cannot be lifted, and are inherited.
    """
    version = landlock_version()
    if not version or not sys.platform.startswith("linux"):
        return False
    libc = _libc()
    every = (1 << _ACCESS_BY_VERSION.get(version, 16)) - 1
    net = _TCP if version >= _NET_SINCE else 0
    scopes = _SCOPES if version >= _SCOPES_SINCE else 0
    attributes = struct.pack("QQQ", every, net, scopes)
    size = 8 if version < _NET_SINCE else 16 if version < _SCOPES_SINCE else 24
    rules = libc.syscall(_CREATE, attributes, ctypes.c_size_t(size), 0)
    if rules < 0:
        return False
    try:
        for path in (*SYSTEM, *readable):
            _allow(rules, path, every & (_EXECUTE | _READ_FILE | _READ_FOLDER))
        for path in (*writable, OWN_THREADS, *_devices()):
            _allow(rules, path, every)
        libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
        return bool(libc.syscall(_RESTRICT, rules, 0) == 0)
    finally:
        os.close(rules)


def place_of_all(file: Path) -> str:
    """Folder of SYSTEM or DEVICES that a file lies in, so that nobody is kept from it; or empty."""
    places = (*SYSTEM, *_devices())
    return next((place for place in places if file.resolve().is_relative_to(place)), "")


def _devices() -> Iterator[str]:
    for device in DEVICES:
        yield from map(str, Path("/dev").glob(device))


def _allow(rules: int, path: str, access: int) -> None:
    """Allow what lies below a path; nothing where there is no such path."""
    with suppress(OSError):
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
        try:
            allowed = access if Path(path).is_dir() else access & _ON_FILES
            rule = struct.pack("=Qi", allowed, place)
            _libc().syscall(_ADD, rules, _PATH_BENEATH, rule, 0)
        finally:
            os.close(place)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
