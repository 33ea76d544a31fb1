"""Reads YAML so that every later error can name its line.

`yaml.safe_load` and nothing more powerful, with two differences: `1e-3` is a number (YAML 1.1 asks
for `1.0e-3`), and what YAML would silently misread is refused (see `_misreading`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from profiler.errors import ParseError, SpecError, experiment_inside, nearest_file
from profiler.parse.bounded_files import read_plain

Key = str | int
FieldPath = tuple[Key, ...]

_STRING = "tag:yaml.org,2002:str"
_INTEGER = "tag:yaml.org,2002:int"
_FLOAT = "tag:yaml.org,2002:float"
_MERGE = "tag:yaml.org,2002:merge"
_HALF_CHARACTER = re.compile("[\ud800-\udfff]")
MAX_SPEC_BYTES = 2**22
"""Longest experiment file, for which PyYAML takes ten seconds; this project's have up to 7 KB."""
MAX_MERGED_KEYS = 10_000
"""Most keys that a mapping may get by merging; PyYAML copies them once for each merge."""
IN_QUOTES = "; a text that begins with a brace stands in quotes"
_BARE_PLACEHOLDER = re.compile(r"(?:^|[:,\[{-])\s*\{[A-Za-z_][A-Za-z0-9_]*\}")
"""A place in a line where YAML takes `{kernel}` for a mapping."""
_ABBREVIATED = re.compile(r"(?P<digits>[0-9]+)(?P<unit>[kKMG])(?P<binary>i?)[bB]?")
_EXPONENTS = {"k": 1, "K": 1, "M": 2, "G": 3}
_WORDS = frozenset({"name", "note", "reason"})
"""Keys of variants and problems whose values are words, not parameters."""
_MOST_DIGITS = 4000
"""Characters; Python reads no decimal number of more than 4,300."""
_MOST_BITS = 1024
"""Most digits of a whole number: longer ones are beyond every float, and slow to print."""
_TRUE = frozenset({"true", "yes", "on"})
_READ_WORDS: Mapping[str, Callable[[str], str]] = {
    "tag:yaml.org,2002:bool": lambda word: "true" if word.lower() in _TRUE else "false",
    "tag:yaml.org,2002:null": lambda _word: "null",
}
"""Text of the value that a word stands for, by its tag."""
_OCTAL = re.compile(r"[-+]?0[0-7_]+")


class _Loader(yaml.SafeLoader):
    """`yaml.SafeLoader` that reads `1e-3` as a number."""

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """The value of a node; what PyYAML does not foresee of a tag that does not fit is said."""
        try:
            return super().construct_object(node, deep)
        except (LookupError, AttributeError) as error:
            problem = f"{str(node.value)[:40]!r} is no {node.tag.rpartition(':')[2]}"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark) from error


class _Dumper(yaml.SafeDumper):
    """`yaml.SafeDumper` that puts in quotes what `_Loader` would not read as text."""


def _integer(loader: _Loader, node: yaml.ScalarNode) -> int:
    if len(node.value) > _MOST_DIGITS:
        problem = f"a whole number of {len(node.value)} characters"
        raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)
    number: int = loader.construct_yaml_int(node)
    if number.bit_length() > _MOST_BITS:
        problem = f"a whole number of {number.bit_length()} bits"
        raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)
    return number


_Loader.add_constructor(_INTEGER, _integer)
for _either in (_Loader, _Dumper):
    _either.add_implicit_resolver(
        _FLOAT,
        re.compile(r"[-+]?[0-9][0-9_]*(?:\.[0-9_]*)?[eE][-+]?[0-9]+$"),
        list("-+0123456789"),
    )


@dataclass(frozen=True, order=True)
class Fault:
    """One thing that is wrong in a file, and where."""

    line: int
    field: str
    text: str


@dataclass(frozen=True)
class Document:
    """A YAML file: its text, its data, and its nodes, which know their lines."""

    path: Path
    text: str
    data: dict[str, Any]
    root: yaml.Node
    faults: tuple[Fault, ...]
    """Faults found before any field is checked: duplicate keys, misread values."""
    lines: Mapping[FieldPath, int] | None = None
    """Lines of the Python file that the text was made from, by field."""

    def line(self, field: FieldPath) -> int:
        """Line (from 1) of a field, or of its nearest ancestor that is in the file."""
        if self.lines is not None:
            prefix_lengths = range(len(field), -1, -1)
            return next(
                self.lines[field[:end]] for end in prefix_lengths if field[:end] in self.lines
            )
        mark = self.root.start_mark
        node = self.root
        for key in field:
            child = _step(node, key)
            if child is not None:
                mark, node = child
        return mark.line + 1

    def holds(self, field: FieldPath) -> bool:
        """Whether the file itself has a field."""
        return self._node(field) is not None

    def is_mapping(self, field: FieldPath) -> bool:
        """Whether the file has a mapping at a field."""
        return isinstance(self._node(field), yaml.MappingNode)

    def _node(self, field: FieldPath) -> yaml.Node | None:
        node = self.root
        for key in field:
            child = _step(node, key)
            if child is None:
                return None
            node = child[1]
        return node


def read_document(path: Path) -> Document:
    """Read a YAML file whose top level is a mapping.

    Raises `SpecError` where the file cannot be read, is not UTF-8, is not YAML, is empty, or is
    anything but one mapping.
    """
    return read_text(path, _read_text(path))


def read_text(path: Path, text: str) -> Document:
    """Document of a YAML text from a file, or made from one; raises like `read_document`."""
    try:
        root, faults, data = _load(text)
    except yaml.YAMLError as error:
        raise SpecError(_yaml_message(path, text, error)) from error
    except (ValueError, RecursionError) as error:
        raise SpecError(f"{path}:1: cannot be read as YAML: {error}") from error
    if root is None:
        raise SpecError(
            f"{path}:1: the file is empty", remedy="docs/spec.md shows a whole example."
        )
    if not isinstance(data, dict):
        raise SpecError(
            f"{path}:{root.start_mark.line + 1}: the top level must be a mapping (`name: …`), "
            f"not {kind_of(data)}"
        )
    return Document(path=path, text=text, data=data, root=root, faults=faults)


def _load(text: str) -> tuple[yaml.Node | None, tuple[Fault, ...], Any]:
    """Nodes, faults and data of a text; the data is `{}` where faults make it unreadable."""
    loader = _Loader(text)
    root = loader.get_single_node()
    if root is None:
        return None, (), None
    _refuse_merge_bombs(root)
    # Before the data is made, because that step writes merged keys (`<<`) into the nodes.
    faults = tuple(_structure_faults(root))
    try:
        data = loader.construct_document(root)
    except (yaml.YAMLError, ValueError):
        if not faults:
            raise
        data = {}
    return root, faults, data


_NO_RUN = "Name the file of an experiment; `profiler report` shows runs and recordings."
_ZIP_MAGIC = b"PK\x03\x04"
_ELF_MAGIC = b"\x7fELF"
_OF_CUDA = (
    "`profiler new cuda NAME` writes an experiment file for kernels, to be edited "
    "(docs/cuda-file.md)."
)
_OF_PROGRAMS = (
    "`profiler new command NAME` writes an experiment file for programs, to be edited "
    "(docs/own-programs.md)."
)
_OTHER_FILES = {
    **dict.fromkeys((".cu", ".cuh"), _OF_CUDA),
    **dict.fromkeys((".c", ".cc", ".cpp", ".cxx", ".sh"), _OF_PROGRAMS),
    **dict.fromkeys((".ncu-rep", ".nsys-rep", ".sqlite", ".csv"), "`profiler import` reads it."),
}
"""Endings of files that people name in place of an experiment's, each with what to do."""


def _read_text(path: Path) -> str:
    try:
        content = read_plain(
            path, MAX_SPEC_BYTES, "MAX_SPEC_BYTES in profiler/planning/spec/source"
        )
    except FileNotFoundError as error:
        raise SpecError(f"{path}: there is no such file{nearest_file(path)}") from error
    except ParseError as error:
        raise SpecError(error.message, remedy=error.remedy) from error
    except OSError as error:
        hint = experiment_inside(path)
        raise SpecError(
            f"{path}: cannot be read: {error.strerror}{hint}",
            remedy=_NO_RUN if path.is_dir() and not hint else None,
        ) from error
    if content.startswith(_ZIP_MAGIC):
        raise SpecError(f"{path}: is a zip archive, and no experiment", remedy=_NO_RUN)
    remedy = _OF_PROGRAMS if content.startswith(_ELF_MAGIC) else _OTHER_FILES.get(path.suffix)
    if remedy is not None:
        raise SpecError(f"{path}: is no experiment file", remedy=remedy)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise SpecError(
            f"{path}:{line}: the file is not UTF-8 (byte 0x{content[error.start]:02x})",
            remedy="Save it as UTF-8.",
        ) from error


def _yaml_message(path: Path, text: str, error: yaml.YAMLError) -> str:
    if isinstance(error, yaml.MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark is not None else 1
        description = " ".join(part for part in (error.context, error.problem) if part)
        if "'\\t'" in description:
            description = "a tab, where only spaces may stand"
        bare_placeholder = _BARE_PLACEHOLDER.search("\n".join(text.splitlines()[line - 1 : line]))
        hint = f'{IN_QUOTES}: "{{kernel}} …"' if bare_placeholder else ""
        return f"{path}:{line}: not valid YAML: {description}{hint}"
    line = text.count("\n", 0, getattr(error, "position", 0)) + 1
    return f"{path}:{line}: not valid YAML: {getattr(error, 'reason', error)}"


def parse_value(text: str) -> Any:
    """Value of a YAML text, as on the right of a colon.

    Raises `ValueError` where it is not YAML or YAML would misread it.
    """
    try:
        _root, faults, data = _load(text)
    except (yaml.YAMLError, RecursionError) as error:
        raise ValueError(f"not valid YAML: {getattr(error, 'problem', None) or error}") from error
    if faults:
        raise ValueError(faults[0].text)
    return data


def respelled_words(
    document: Document, names: Container[str]
) -> dict[str, dict[tuple[str, str], None]]:
    """Words and what YAML reads in their place (`on`, true), by the parameter that has them."""
    words: dict[str, dict[tuple[str, str], None]] = {}
    waiting = [(str(key.value), value) for key, value in document.root.value]
    waiting = [(key, value) for key, value in waiting if key in ("variants", "problems")]
    visited: set[tuple[str, int]] = set()
    for key, node in waiting:  # which grows
        if (key, id(node)) in visited:  # by an alias
            continue
        visited.add((key, id(node)))
        if isinstance(node, yaml.MappingNode):
            waiting += [(str(inner.value), value) for inner, value in node.value]
        elif isinstance(node, yaml.SequenceNode):
            waiting += [(key, item) for item in node.value]
        elif key in names and node.tag in _READ_WORDS:
            read = _READ_WORDS[node.tag](node.value)
            if node.value != read:
                words.setdefault(key, {})[node.value, read] = None
    return words


def _represent_text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    style = "'" if _ABBREVIATED.fullmatch(text) else None
    return dumper.represent_scalar(_STRING, text, style=style)


_Dumper.add_representer(str, _represent_text)


def as_yaml(data: Mapping[str, Any]) -> str:
    """Text of an experiment file with the given data."""
    text: str = yaml.dump(
        data,
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        default_flow_style=None,
        width=100,
    )
    return text


def kind_of(value: object) -> str:
    """Kind of a value, in the terms of YAML."""
    names = {
        dict: "a mapping",
        list: "a list",
        str: "text",
        bool: "true or false",
        int: "a number",
        float: "a number",
        type(None): "nothing",
    }
    return names.get(type(value), f"a {type(value).__name__}")


def field_name(field: Sequence[Key]) -> str:
    """`("variants", "list", 2)` as `variants.list[2]`."""
    parts = (f"[{key}]" if isinstance(key, int) else f".{key}" for key in field)
    return "".join(parts).removeprefix(".")


def _step(node: yaml.Node, key: Key) -> tuple[yaml.Mark, yaml.Node] | None:
    """The mark and the node of a key; a later pair wins, as in the data."""
    if isinstance(node, yaml.MappingNode):
        for name, value in reversed(node.value):
            if isinstance(name, yaml.ScalarNode) and name.value == key:
                return name.start_mark, value
    if isinstance(node, yaml.SequenceNode) and isinstance(key, int) and key < len(node.value):
        return node.value[key].start_mark, node.value[key]
    return None


def _structure_faults(root: yaml.Node) -> Iterator[Fault]:
    """Faults of all nodes, each visited once, so that aliases cannot make the walk explode."""
    visited: set[int] = set()
    waiting: list[tuple[FieldPath, yaml.Node]] = [((), root)]
    while waiting:
        field, node = waiting.pop()
        if id(node) in visited:
            continue
        visited.add(id(node))
        _refuse_half_characters(node)
        if isinstance(node, yaml.MappingNode):
            yield from _key_faults(field, node)
            waiting += [((*field, str(key.value)), value) for key, value in node.value]
        elif isinstance(node, yaml.SequenceNode):
            waiting += [((*field, index), item) for index, item in enumerate(node.value)]
        elif isinstance(node, yaml.ScalarNode) and (
            message := _misreading(node) or _abbreviation(field, node)
        ):
            yield Fault(node.start_mark.line + 1, field_name(field), message)


def _refuse_half_characters(node: yaml.Node) -> None:
    """Raise for lone surrogates, which an escape can make and no file or tool accepts."""
    scalars = [key for key, _ in node.value] if isinstance(node, yaml.MappingNode) else [node]
    for scalar in scalars:
        if isinstance(scalar, yaml.ScalarNode) and _HALF_CHARACTER.search(scalar.value):
            raise yaml.MarkedYAMLError(
                problem="half of a surrogate pair is not text", problem_mark=scalar.start_mark
            )


def _refuse_merge_bombs(root: yaml.Node) -> None:
    """Raise where nested merge keys (`<<`) multiply the keys of a text."""
    sizes: dict[int, int] = {}

    def keys_of(node: yaml.Node) -> int:
        """Number of keys of a mapping, or of a list's mappings, after merging."""
        if id(node) not in sizes:
            sizes[id(node)] = MAX_MERGED_KEYS + 1  # what merges itself has no end
            sizes[id(node)] = sum(map(keys_in, _parts(node)))
        return sizes[id(node)]

    def keys_in(part: tuple[yaml.Node | None, yaml.Node]) -> int:
        key, value = part
        return 1 if key is not None and key.tag != _MERGE else keys_of(value)

    for node in _all_nodes(root):
        if isinstance(node, yaml.MappingNode) and keys_of(node) > MAX_MERGED_KEYS:
            raise yaml.MarkedYAMLError(
                problem=f"merging (`<<`) makes more than {MAX_MERGED_KEYS} keys of it "
                "(limit MAX_MERGED_KEYS in profiler/planning/spec/source)",
                problem_mark=node.start_mark,
            )


def _parts(node: yaml.Node) -> Sequence[tuple[yaml.Node | None, yaml.Node]]:
    """Key and value nodes of a mapping; None and item nodes of a list."""
    if isinstance(node, yaml.MappingNode):
        return list(node.value)
    return [(None, item) for item in node.value] if isinstance(node, yaml.SequenceNode) else []


def _all_nodes(root: yaml.Node) -> Iterator[yaml.Node]:
    """Every node once, however many aliases point to it."""
    visited: set[int] = set()
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if id(node) not in visited:
            visited.add(id(node))
            yield node
            waiting += [child for part in _parts(node) for child in part if child is not None]


def _key_faults(field: FieldPath, node: yaml.MappingNode) -> Iterator[Fault]:
    first_line: dict[str, int] = {}
    for key, _value in node.value:
        line = key.start_mark.line + 1
        if not isinstance(key, yaml.ScalarNode) or key.tag not in (_STRING, _MERGE):
            key_text = key.value if isinstance(key, yaml.ScalarNode) else "of several values"
            message = f"the key {key_text} is not text to YAML; put it in quotes"
            yield Fault(line, field_name(field), message)
        elif key.value in first_line:
            message = f"this key is already on line {first_line[key.value]}"
            yield Fault(line, field_name((*field, key.value)), message)
        else:
            first_line[key.value] = line


def _misreading(node: yaml.ScalarNode) -> str | None:
    """Message for a value that YAML misreads (`64:32` is 3872, 010 is 8), or None."""
    if node.tag in (_INTEGER, _FLOAT) and ":" in node.value:
        return f"YAML reads {node.value} as a number in base 60; put it in quotes"
    if node.tag == _INTEGER and _OCTAL.fullmatch(node.value):
        return f"YAML reads {node.value} as octal; drop the leading zero or put it in quotes"
    if node.tag == "tag:yaml.org,2002:timestamp":
        return f"YAML reads {node.value} as a date; put it in quotes"
    return None


def _abbreviation(field: FieldPath, node: yaml.ScalarNode) -> str | None:
    """Message for a parameter such as 1K, which is text to YAML; None for any other value."""
    match = _ABBREVIATED.fullmatch(node.value)
    parameter = field[:1] in (("variants",), ("problems",)) and _WORDS.isdisjoint(field)
    # Text in quotes is meant as text.
    if match is None or not parameter or node.style is not None:
        return None
    digits, exponent = int(match["digits"]), _EXPONENTS[match["unit"]]
    binary = f"{digits * 1024**exponent}"
    meant = binary if match["binary"] else f"{binary} or {digits * 1000**exponent}"
    return f"{node.value} is text to YAML, not a number; write {meant}, or put it in quotes"
