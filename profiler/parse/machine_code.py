"""Identity of a program by its machine code, read from the object file that nvcc writes.

Two objects have the same hash where the GPU and the host would execute the same instructions with
the same resources: names of kernels and functions, debug sections, notes and paths do not count.
Launch code does count, because the grid and block that a kernel gets are part of the program.

The device part lies in the section `.nv_fatbin`: containers of entries, each a header and a cubin
(an ELF file) or PTX text. Layout of the headers: fatbinary_section.h and fatBinaryCtl.h of the CUDA
toolkit, and objects of nvcc 13.0.
"""

from __future__ import annotations

import hashlib
import io
import re
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection
from elftools.elf.sections import Section, Symbol, SymbolTableSection

from profiler.errors import ParseError

_CONTAINER_MAGIC = 0xBA55ED50
_CONTAINER_HEADER = struct.Struct("<IHHQ")  # magic, version, bytes of this header, bytes after it
_ENTRY_HEADER = struct.Struct("<HHIQ")  # kind, version, bytes of this header, bytes of the payload
_ENTRY_ARCH_OFFSET = 28  # sm version as a 32-bit number: 90
_ENTRY_PTX = 1
_ENTRY_CUBIN = 2

# Attributes of `.nv.info`: a format byte, an attribute byte, then a value of two bytes or, in the
# format 4, a size of two bytes and that many bytes. Codes by the names that nvdisasm gives them.
_INFO_SIZED = 4
_INFO_PARAM_CBANK = 0x0A  # starts with a symbol index, and those depend on names
_INFO_EXTERNS = 0x0F  # is a list of symbol indices
# The limit that launch bounds set for the register allocator: where it does not bind, it changes
# nothing but this attribute. The registers that a kernel takes are in REGCOUNT.
_INFO_MAXREG_COUNT = 0x1B
_INFO_IGNORED = frozenset({_INFO_EXTERNS, _INFO_MAXREG_COUNT})

# Sections of a cubin that make the program; the rest is symbols, debug information and notes.
_DEVICE_SECTION = re.compile(
    r"\.(text|nv\.shared|nv\.local|nv\.constant\d+|nv\.info)\.(?P<owner>.+)"
)
_DEVICE_GLOBALS = re.compile(r"\.nv\.(global|constant\d+|shared)(\.init)?")
_HOST_SECTION = re.compile(r"\.(text|rodata|data|bss|init_array|fini_array|tbss|tdata)(\..+)?")
_STRINGS = re.compile(r"\.rodata(\..+)?\.str.*")
_PC_RELATIVE = frozenset({2, 4, 9, 41, 42})  # R_X86_64_PC32, PLT32, GOTPCREL, GOTPCRELX, REX_…
_PC_BIAS = 4  # these count from the end of their four bytes
_FATBIN = ".nv_fatbin"
_LAUNCHED_SECTION = ".data.rel.ro.profiler_kernel"
_STATIC = re.compile(r"^(_Z(?:N[^IL]*)?)L(?=\d)")
"""Beginning of a `static` kernel's name up to the `L` that only the host's name has."""


def code_hash(*objects: Path) -> str:
    """SHA-256 over the machine code of object files: device code, its resources, and launch code.

    Raises ParseError for a file that is no object of nvcc, or whose device code is compressed.
    """
    return _digest(*(_object_digest(path) for path in objects))


def launched_functions(path: Path) -> tuple[str, ...]:
    """Symbols of the kernels and host functions that our launcher starts; none in other objects.

    The launcher (profiler/kernels/cuda_file/src/launcher.cu) holds their addresses in a section of
    its own.
    """
    with _open_object(path) as elf:
        lines = _relocations(elf).get(_LAUNCHED_SECTION, [])
        functions = [
            _function_at(elf, line) for line in sorted(lines, key=lambda line: -line.offset)
        ]
        names = tuple(name for name in functions if name is not None)
        return names if len(names) == len(lines) else ()


def kernels_hash(path: Path, kernels: Sequence[str]) -> str | None:
    """SHA-256 over the machine code of an object's kernels, launched in this order.

    All device code that they may reach counts. The code of other kernels does not, nor the code
    that launches them. None where one of them is no kernel, but a host function.
    """
    hashes = [_kernel_hash(path, kernel) for kernel in kernels]
    hashes_of_kernels = [text for text in hashes if text is not None]
    if len(hashes_of_kernels) < len(hashes):
        return None
    if len(hashes) == 1:
        return hashes[0]
    return _digest(*(text.encode() for text in hashes_of_kernels))


def _kernel_hash(path: Path, kernel: str) -> str | None:
    """SHA-256 over the machine code of one kernel; None where an object has no such kernel."""
    with _open_object(path) as elf:
        section = elf.get_section_by_name(_FATBIN)
        images = () if section is None else tuple(_images(section.data()))
        if any(kind != _ENTRY_CUBIN for kind, _, _ in images):
            raise ParseError(f"{path.name}: holds PTX, which is compiled at run time")
        parts = [_kernel_digest(arch, cubin, kernel) for _, arch, cubin in images]
        return _digest(*parts) if any(parts) else None


@contextmanager
def _open_object(path: Path) -> Iterator[ELFFile]:
    """ELF file of an object; raises ParseError for any part that cannot be read."""
    try:
        with path.open("rb") as stream:
            yield ELFFile(stream)
    except (ELFError, struct.error, IndexError, UnicodeDecodeError) as error:
        raise ParseError(f"{path.name}: machine code cannot be read: {error}") from error
    except OSError as error:
        raise ParseError(f"{path.name}: cannot be opened: {error.strerror}") from error


def _object_digest(path: Path) -> bytes:
    with _open_object(path) as elf:
        device, kernels = _device_code(elf)
        return _digest(device, _host_code(elf, kernels)).encode()


def _digest(*parts: bytes) -> str:
    """SHA-256 of parts, so that moving bytes from one part to the next changes it."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(struct.pack("<Q", len(part)))
        digest.update(part)
    return digest.hexdigest()


def _digest_all(parts: Iterable[bytes]) -> bytes:
    """Digest of parts in any order."""
    return _digest(*sorted(parts)).encode()


# Relocations


@dataclass(frozen=True)
class _Relocation:
    """One relocation; `target` is a symbol's name, or its section's where it has none."""

    offset: int
    kind: int
    addend: int
    target: str
    section: int | None
    """Index of the section that defines the target, None where another object does."""
    value: int


def _relocations(elf: ELFFile) -> dict[str, list[_Relocation]]:
    """Relocations by the name of their section."""
    by_section: dict[str, list[_Relocation]] = {}
    for section in elf.iter_sections():
        if not isinstance(section, RelocationSection):
            continue
        table = elf.get_section(section["sh_link"])
        if not isinstance(table, SymbolTableSection):
            continue
        target = elf.get_section(section["sh_info"]).name
        for relocation in section.iter_relocations():
            symbol = table.get_symbol(relocation["r_info_sym"])
            by_section.setdefault(target, []).append(_relocation(elf, symbol, relocation.entry))
    return by_section


def _relocation(elf: ELFFile, symbol: Symbol, entry: Mapping[str, int]) -> _Relocation:
    index = symbol["st_shndx"]
    defined = index if isinstance(index, int) else None
    name = symbol.name
    if not name and defined is not None:
        name = elf.get_section(defined).name
    return _Relocation(
        offset=entry["r_offset"],
        kind=entry["r_info_type"],
        addend=entry.get("r_addend", 0),
        target=name,
        section=defined,
        value=symbol["st_value"],
    )


# Device code


_Image = tuple[int, int, bytes]
"""One image of a fatbin: its kind, its sm version and its bytes."""


def _device_code(elf: ELFFile) -> tuple[bytes, dict[str, bytes]]:
    """Digest of all device code, and the digest of each device function by its symbol name."""
    section = elf.get_section_by_name(_FATBIN)
    if section is None:
        return b"", {}
    images: list[bytes] = []
    kernels: dict[str, list[bytes]] = {}
    for kind, arch, payload in _images(section.data()):
        header = struct.pack("<II", kind, arch)
        if kind == _ENTRY_CUBIN:
            functions, unowned = _cubin_digests(payload)
            images.append(header + _digest_all([*functions.values(), unowned]))
            for name, digest in functions.items():
                kernels.setdefault(name, []).append(header + digest)
        else:
            images.append(header + _digest(payload).encode())
    return _digest_all(images), {name: _digest_all(parts) for name, parts in kernels.items()}


def _images(data: bytes) -> Iterator[_Image]:
    """Images in all containers of `.nv_fatbin`."""
    position = 0
    while position + _CONTAINER_HEADER.size <= len(data):
        magic, _, header, size = _CONTAINER_HEADER.unpack_from(data, position)
        if magic != _CONTAINER_MAGIC:
            position += 8  # Containers are aligned to 8 bytes; between them lies padding.
            continue
        yield from _images_of_container(data[position + header : position + header + size])
        position += header + size


def _images_of_container(data: bytes) -> Iterator[_Image]:
    position = 0
    while position + _ENTRY_HEADER.size <= len(data):
        kind, _, header, size = _ENTRY_HEADER.unpack_from(data, position)
        if header < _ENTRY_HEADER.size:
            raise ParseError("machine code cannot be read: unknown layout of the fatbin")
        (arch,) = struct.unpack_from("<I", data, position + _ENTRY_ARCH_OFFSET)
        payload = data[position + header : position + header + size]
        if kind == _ENTRY_CUBIN and not payload.startswith(b"\x7fELF"):
            raise ParseError(
                "machine code cannot be read: the device code is compressed",
                remedy="Compile with --no-compress.",
            )
        if kind in (_ENTRY_CUBIN, _ENTRY_PTX):
            yield kind, arch, payload
        position += header + size


def _cubin_digests(image: bytes) -> tuple[dict[str, bytes], bytes]:
    """Digest of each function of a cubin, and digest of its parts that belong to no function."""
    elf = ELFFile(io.BytesIO(image))
    parts_by_function: dict[str, list[bytes]] = {}
    unowned: list[bytes] = []
    sections = [section.name for section in elf.iter_sections()]
    names = {name.removeprefix(".text.") for name in sections if name.startswith(".text.")}
    relocations = _relocations(elf)
    for section in elf.iter_sections():
        match = _DEVICE_SECTION.fullmatch(section.name)
        if match and match["owner"] in names:
            parts_by_function.setdefault(match["owner"], []).append(
                _device_section(section, match[1])
            )
        elif _DEVICE_GLOBALS.fullmatch(section.name):
            unowned.append(section.name.encode() + _content(section))
    for section_name, lines in relocations.items():
        match = _DEVICE_SECTION.fullmatch(section_name)
        if match and match["owner"] in names:
            parts_by_function[match["owner"]].extend(
                _device_relocation(line, names) for line in lines
            )
        elif _DEVICE_GLOBALS.fullmatch(section_name):
            unowned.extend(_device_relocation(line, names) for line in lines)
    for name, attribute in _function_attributes(elf):
        parts_by_function.setdefault(name, []).append(attribute)
    return {name: _digest_all(parts) for name, parts in parts_by_function.items()}, _digest_all(
        unowned
    )


def _kernel_digest(arch: int, cubin: bytes, kernel: str) -> bytes:
    """Digest of a kernel in an image; empty where the image lacks the kernel.

    Where the kernel calls functions, all of the image counts: calls are not followed.
    """
    elf = ELFFile(io.BytesIO(cubin))
    functions, unowned = _cubin_digests(cubin)
    if kernel not in functions:
        return b""
    other_functions = functions.keys() - {kernel}
    lines = _relocations(elf).get(f".text.{kernel}", [])
    calls = any(line.target.removeprefix(".text.") in other_functions for line in lines)
    digests = functions.values() if calls else [functions[kernel]]
    return struct.pack("<I", arch) + functions[kernel] + _digest_all([*digests, unowned])


def _device_section(section: Section, kind: str) -> bytes:
    if kind == "nv.info":
        attributes = (value for code, value in _info(section.data()) if code not in _INFO_IGNORED)
        return kind.encode() + _digest_all(attributes)
    return kind.encode() + _content(section)


def _content(section: Section) -> bytes:
    """Size of a section, then its bytes where the file holds them."""
    content = b"" if section["sh_type"] == "SHT_NOBITS" else section.data()
    return struct.pack("<Q", section["sh_size"]) + content


def _info(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Code and bytes of each attribute of a `.nv.info` section, without symbol indices."""
    position = 0
    while position + 4 <= len(data):
        kind, attribute, size = struct.unpack_from("<BBH", data, position)
        end = position + 4 + (size if kind == _INFO_SIZED else 0)
        value = data[position:end]
        if attribute == _INFO_PARAM_CBANK:
            value = value[:4] + value[8:]
        yield attribute, value
        position = end


def _function_attributes(elf: ELFFile) -> Iterator[tuple[str, bytes]]:
    """Name and attribute of functions in `.nv.info`: registers, frame and stack sizes."""
    section = elf.get_section_by_name(".nv.info")
    table = elf.get_section_by_name(".symtab")
    if section is None or not isinstance(table, SymbolTableSection):
        return
    for _, value in _info(section.data()):
        index = int.from_bytes(value[4:8], "little")
        if len(value) == 12 and index < table.num_symbols():  # a symbol index and one number
            symbol = table.get_symbol(index)
            if symbol["st_info"]["type"] == "STT_FUNC":
                yield symbol.name, value[:4] + value[8:]


def _device_relocation(line: _Relocation, functions: set[str]) -> bytes:
    """Bytes of a relocation without names of functions, whose digests stand for them."""
    target = line.target.removeprefix(".text.")
    target_text = "function" if target in functions else _DEVICE_SECTION.sub(r".\1", line.target)
    return f"{line.offset} {line.kind} {line.addend} {target_text}".encode()


# Host code


def _host_code(elf: ELFFile, kernels: Mapping[str, bytes]) -> bytes:
    """Digest of the host sections.

    The kernel that a launch reaches counts: nvcc writes code that registers the host function of
    each launch with the kernel's name, in whose place the kernel's digest is hashed.
    """
    relocations = _relocations(elf)
    parts: list[bytes] = []
    for section in elf.iter_sections():
        if not _HOST_SECTION.fullmatch(section.name) or _STRINGS.fullmatch(section.name):
            continue  # Strings count where they are used: kernel names are among them.
        lines = relocations.get(section.name, [])
        targets = (_host_relocation(elf, line, kernels) for line in lines)
        parts.append(section.name.encode() + _content(section) + _digest(*targets).encode())
    return _digest_all(parts)


def _host_relocation(elf: ELFFile, line: _Relocation, kernels: Mapping[str, bytes]) -> bytes:
    head = struct.pack("<QI", line.offset, line.kind)
    if line.target in kernels:
        return head + kernels[line.target]
    if line.section is None:
        return head + f"{line.target} {line.addend}".encode()
    section = elf.get_section(line.section)
    position = line.value + line.addend + (_PC_BIAS if line.kind in _PC_RELATIVE else 0)
    if _STRINGS.fullmatch(section.name):
        return head + _string(section.data(), position, kernels)
    return head + f"{section.name} {position}".encode()


def _string(data: bytes, position: int, kernels: Mapping[str, bytes]) -> bytes:
    """C string at a position; a kernel's digest in place of its name, by which it registers."""
    text = data[position:].split(b"\0", 1)[0]
    return kernels.get(text.decode("utf-8", "replace"), text)


def _function_at(elf: ELFFile, line: _Relocation) -> str | None:
    """Device name of the function that a relocation points to: a symbol or a place."""
    table = elf.get_section_by_name(".symtab")
    if not isinstance(table, SymbolTableSection):
        return None
    place = line.value + line.addend
    functions = (
        symbol for symbol in table.iter_symbols() if symbol["st_info"]["type"] == "STT_FUNC"
    )
    return next(
        (
            _STATIC.sub(r"\1", symbol.name)
            for symbol in functions
            if symbol["st_shndx"] == line.section and symbol["st_value"] == place
        ),
        None,
    )


# ---- shared objects that a program brings with it ------------------------------------------------

_SEARCH_TAGS = ("DT_RPATH", "DT_RUNPATH")
_TEXTS = {"DT_NEEDED": "needed", "DT_RPATH": "rpath", "DT_RUNPATH": "runpath"}
"""Attribute of elftools with the text of an entry, by tag."""


def shared_objects(program: Path, folders: Sequence[Path] = ()) -> tuple[Path, ...]:
    """Shared objects that a program needs, at any depth, in its search path and in `folders`.

    Objects in the system's folders are left out: drivers and the C library are no part of a
    program. A file that is no ELF file has none. Objects opened by `dlopen` are not found.
    """
    libraries: dict[Path, None] = {}
    waiting = [program]
    while waiting:
        for path in _needed_files(waiting.pop(), folders):
            if path not in libraries:
                libraries[path] = None
                waiting.append(path)
    return tuple(libraries)


def _needed_files(file: Path, folders: Sequence[Path]) -> Iterator[Path]:
    names, search_folders = _needed_and_folders(file)
    for name in names:
        for folder in (*search_folders, *folders):
            path = folder / name
            if path.is_file():
                yield path.resolve()
                break


def _needed_and_folders(file: Path) -> tuple[tuple[str, ...], tuple[Path, ...]]:
    """Names of needed objects, and the folders that a file searches for them first."""
    try:
        with file.open("rb") as stream:
            entries = list(_dynamic_entries(ELFFile(stream)))
    except (OSError, ELFError, ValueError, KeyError, AttributeError, UnicodeDecodeError):
        return (), ()  # a script, or a file that only looks like a program
    needed = tuple(text for tag, text in entries if tag == "DT_NEEDED")
    paths = [text for tag, text in entries if tag in _SEARCH_TAGS]
    origin = str(file.resolve().parent)
    folders = (
        part.replace("${ORIGIN}", origin).replace("$ORIGIN", origin)
        for path in paths
        for part in path.split(":")
        if part
    )
    return needed, tuple(map(Path, folders))


def _dynamic_entries(elf: ELFFile) -> Iterator[tuple[str, str]]:
    """Tag and text of the entries of the dynamic section that have a text of interest."""
    for section in elf.iter_sections("SHT_DYNAMIC"):
        if isinstance(section, DynamicSection):
            for entry in section.iter_tags():
                name = _TEXTS.get(entry.entry.d_tag)
                if name is not None:
                    yield entry.entry.d_tag, str(getattr(entry, name))
