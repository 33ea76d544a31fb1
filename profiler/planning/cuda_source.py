"""Functions of `.cu` files, read from their text without a compiler.

What macros make is not seen, so that nothing follows from what is missing here alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

MAX_INCLUDED = 100
"""Most files that are looked into for one source."""

# Comments and texts; of `#include "x"` the name is read before.
_COMMENT = re.compile(
    r"//(?:\\\n|[^\n])*|/\*.*?\*/"
    r'|R"([^(\s]*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'',
    re.DOTALL,
)
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include\s*(?:"([^"\n]+)"|<([^>\n]+)>)', re.MULTILINE)
_DIRECTIVE = re.compile(r"^[ \t]*#(?:\\\n|[^\n])*", re.MULTILINE)
_GLOBAL_MACRO = re.compile(r"^[ \t]*#\s*define\s+(\w+)(?:\\\n|[^\n])*__global__", re.MULTILINE)
_PASTED = re.compile(r"^[ \t]*#\s*define(?:\\\n|[^\n])*##", re.MULTILINE)
_CONDITION = re.compile(r"^[ \t]*#[ \t]*(if\w*|endif|define)\b[ \t]*(\w*)", re.MULTILINE)
_MACRO_LIKE = re.compile(r"[A-Z][A-Z0-9_]{2,}")
_TOKEN = re.compile(r"\w+|\S")
_WORD = re.compile(r"[A-Za-z_]\w*")
_ATTRIBUTES = re.compile(
    "__(launch_bounds|cluster_dims|maxnreg|block_size|attribute|align)__|alignas|decltype|noexcept"
)
"""Words with parentheses of their own that may precede or follow a function's name."""
_PAIRS = {"(": ")", "{": "}", "[": "]", "<": ">"}

_LAUNCH = re.compile(r"[\w:]+(?:\s*<[^<>;]*>)?\s*<<<.*?>>>", re.DOTALL)
_GRID_HANDLE = re.compile(r"(\w+)\s*=\s*(?:\w+\s*::\s*)*this_grid\s*\(|grid_group\s*&?\s*(\w+)")
_GRID_SYNC = (
    r"\b(?:this_grid\s*\(\s*\)|{handles})\s*\.\s*(?:sync|barrier_arrive)\b"
    r"|\bsync\s*\(\s*(?:(?:\w+\s*::\s*)*this_grid|{handles})\b"
)
_CONSTANT = re.compile(r"__constant__([^;={]*);")
_DECLARED = re.compile(r"(\w+)\s*(?:\[[^]]*\]\s*)*(?:,|$)")


@dataclass(frozen=True)
class Function:
    """A function that a file defines or declares."""

    name: str
    place: str
    """`FILE:LINE`."""
    specifiers: frozenset[str]
    """Words and signs before its name, without template parameters."""
    parameters: tuple[str, ...]
    body: str
    """Tokens of the body; empty for a declaration."""

    @property
    def launches(self) -> tuple[str, ...]:
        """Launches in its body, as `kernel<<<grid, block>>>`."""
        return tuple(" ".join(text.split()) for text in _LAUNCH.findall(self.body))

    @cached_property
    def identifiers(self) -> frozenset[str]:
        """Words of its body."""
        return frozenset(_WORD.findall(self.body))

    @property
    def has_hidden_parameters(self) -> bool:
        """Whether there may be more parameters than are written: packs and macros."""
        return any("..." in text or _MACRO_LIKE.fullmatch(text) for text in self.parameters)

    @property
    def syncs_grid(self) -> bool:
        """Whether the function waits for all blocks of the grid by cooperative groups."""
        text = f"{', '.join(self.parameters)} {self.body}"
        handles = {name for pair in _GRID_HANDLE.findall(text) for name in pair if name}
        pattern = _GRID_SYNC.replace("{handles}", "|".join(sorted(handles)) or "this_grid")
        return re.search(pattern, text) is not None


@dataclass(frozen=True)
class SourceFile:
    """A file and its included files, as far as they lie beside it or in given folders."""

    identifiers: frozenset[str]
    functions: tuple[Function, ...]
    kernel_words: frozenset[str]
    """`__global__`, and macros that contain it."""
    structs: dict[str, tuple[str, ...]]
    """Tokens of the members of each struct."""
    constants: dict[str, str]
    """`FILE:LINE` of `__constant__` memory that is given no values."""
    own_macros: dict[str, str]
    """`FILE:LINE` of macros that a file defines whatever is defined before."""
    template_parameters: dict[str, str]
    """`FILE:LINE` of a template that has a parameter of a name."""
    complete: bool
    """Whether all files included by quotes were found, and no macro pastes names together."""
    unreadable: tuple[Path, ...] = ()
    """Files included by quotes that exist but cannot be read."""

    @property
    def kernels(self) -> tuple[str, ...]:
        """Distinct names of its `__global__` functions."""
        names = (f.name for f in self.functions if f.specifiers & self.kernel_words)
        return tuple(dict.fromkeys(names))

    def kernel(self, name: str) -> Function | None:
        """The `__global__` function of a name; None where none or several have it.

        None also where branches of `#if` open more braces than are closed, so that its end is not
        found.
        """
        candidates = [
            f for f in self.functions if f.name == name and f.specifiers & self.kernel_words
        ]
        with_body = [f for f in candidates if f.body] or candidates
        is_known = len(with_body) == 1 and "__global__" not in with_body[0].identifiers
        return with_body[0] if is_known else None

    def plain_function(self, name: str) -> Function | None:
        """The function of a name that is certainly no kernel; None without such a function."""
        candidates = [f for f in self.functions if f.name == name]
        if any(_may_be_kernel(f, self.kernel_words) for f in candidates):
            return None
        return next((f for f in candidates if f.body), None)

    def reachable_functions(self, kernel: Function) -> Iterator[Function]:
        """A kernel and all functions that it calls by name, directly or not."""
        waiting, reached_names = [kernel], {kernel.name}
        while waiting:
            function = waiting.pop()
            yield function
            called = [
                f
                for f in self.functions
                if f.name in function.identifiers - reached_names and f.body
            ]
            reached_names |= {f.name for f in called}
            waiting += called

    def holds_pointers(self, struct: str) -> bool:
        """Whether a member of a struct is a pointer; False where the struct is not known."""
        members = " ".join(_without_nested(self.structs.get(struct, ()))).split(" ; ")
        return any("*" in text.split(" = ")[0] and "(" not in text for text in members)


def _may_be_kernel(function: Function, kernel_words: frozenset[str]) -> bool:
    """Whether a function is a kernel, or an unknown macro may make it one."""
    return any(w in kernel_words or _MACRO_LIKE.fullmatch(w) for w in function.specifiers)


@cache
def read_source(path: Path, folders: tuple[Path, ...] = ()) -> SourceFile:
    """Source of a file and its included files, beside it or in folders of `-I`."""
    texts: dict[Path, str] = {}
    waiting, complete = [path], True
    unreadable: list[Path] = []
    while waiting and len(texts) < MAX_INCLUDED:
        file = waiting.pop()
        if file in texts:
            continue
        try:
            text = file.read_text(encoding="utf-8-sig", errors="replace")
        except (FileNotFoundError, NotADirectoryError):
            complete = False  # the compiler may find it elsewhere
            continue
        except OSError:
            complete = False
            unreadable.append(file)
            continue
        texts[file] = _COMMENT.sub(_blank, text)
        waiting += _included_files(_COMMENT.sub(_without_comment, text), file.parent, folders)
    source = "\n".join(texts.values())
    scans = [_Scan(file.name, text) for file, text in texts.items()]
    structs = {name: tokens for scan in scans for name, tokens in scan.structs.items()}
    # That the file itself can be read is looked at with all sources.
    return SourceFile(
        identifiers=frozenset(_WORD.findall(source)),
        functions=tuple(function for scan in scans for function in scan.functions),
        kernel_words=frozenset({"__global__", *_GLOBAL_MACRO.findall(source)}),
        structs=structs,
        constants={name: at for scan in scans for name, at in scan.constants(structs)},
        own_macros={n: at for file, text in texts.items() for n, at in _own_macros(file, text)},
        template_parameters={n: at for s in scans for n, at in s.template_parameters.items()},
        complete=complete and not _PASTED.search(source),
        unreadable=tuple(file for file in dict.fromkeys(unreadable) if file != path),
    )


def _own_macros(file: Path, text: str) -> Iterator[tuple[str, str]]:
    """Name and `FILE:LINE` of macros that a text defines outside of all `#if`, before other uses.

    The value of an earlier definition, such as one by nvcc's `-D`, is lost there.
    """
    depth = 0
    for match in _CONDITION.finditer(text):
        kind, name = match.groups()
        depth += kind.startswith("if") - (kind == "endif")
        if kind == "define" and depth == 0:
            first = re.search(rf"\b{name}\b", text)
            if first is not None and first.start() == match.start(2):
                yield name, f"{file.name}:{text.count(chr(10), 0, match.start(2)) + 1}"


def _included_files(text: str, folder: Path, folders: tuple[Path, ...]) -> Iterator[Path]:
    """Files that a text includes; angle brackets name files in the folders of `-I` only."""
    for quoted, angled in _INCLUDE.findall(text):
        places = (folder, *folders) if quoted else folders
        paths = [(place / (quoted or angled)).resolve() for place in places]
        existing_path = next((path for path in paths if path.exists()), None)
        if existing_path is not None or quoted:
            yield existing_path or paths[0]


def _blank(match: re.Match[str]) -> str:
    """The line ends of a comment or text alone, so that lines keep their numbers."""
    return " " + "\n" * match[0].count("\n")


def _without_comment(match: re.Match[str]) -> str:
    return " " if match[0].startswith("/") else match[0]


class _Scan:
    """Functions and structs of one text without comments."""

    def __init__(self, file: str, text: str) -> None:
        self._file = file
        self._text = _DIRECTIVE.sub(_blank, text)
        self._matches = list(_TOKEN.finditer(self._text))
        self._tokens = [match[0] for match in self._matches]
        self.functions: list[Function] = []
        self.structs: dict[str, tuple[str, ...]] = {}
        self.template_parameters: dict[str, str] = {}
        self._scan()

    def constants(self, structs: Mapping[str, tuple[str, ...]]) -> Iterator[tuple[str, str]]:
        """Name and place of `__constant__` memory without values, of its own or of its struct."""
        for match in _CONSTANT.finditer(self._text):
            kinds = set(_WORD.findall(match[1]))
            if not any("=" in structs[kind] for kind in kinds & structs.keys()):
                for name in _DECLARED.findall(match[1]):
                    yield name, self._place(match.start())

    def _scan(self) -> None:
        """Go through namespaces, structs and `extern "C"`; bodies of functions are passed over."""
        place = start = 0
        while place < len(self._tokens):
            word = self._tokens[place]
            if word == "template" and self._token_at(place + 1) == "<":
                closing = self._closing_place(place + 1)
                self._note_template(place + 2, closing)
                place = start = closing + 1
                continue
            if word == "(":
                place = self._parenthesis(start, place)
                start = place if self._token_at(place - 1) in ("}", ";") else start
                continue
            if word == "{" and self._token_at(place - 1) in ("=", "]"):
                place = self._closing_place(place)  # values of a variable
            elif word == "{":
                self._note_struct(start, place)
            start = place + 1 if word in ";{}" else start
            place += 1

    def _parenthesis(self, start: int, opening: int) -> int:
        """Record the function whose parameters may begin here; returns the place to go on."""
        closing, name = self._closing_place(opening), self._token_at(opening - 1)
        if not _WORD.fullmatch(name) or _ATTRIBUTES.fullmatch(name):
            return closing + 1
        end = closing + 1
        while self._token_at(end) not in ("{", ";", "}", "(", "=", ""):
            end += 1
        body = ""
        if self._token_at(end) == "{":
            last = self._closing_place(end)
            body = self._text[self._matches[end].start() : self._position(last) + 1]
        elif self._token_at(end) != ";":
            return closing + 1
        parameters = tuple(p for p in self._parameters(opening + 1, closing) if p != "void")
        specifiers = frozenset(self._tokens[start : opening - 1])
        line = self._place(self._matches[opening - 1].start())
        self.functions.append(Function(name, line, specifiers, parameters, body))
        return (self._closing_place(end) if body else end) + 1

    def _parameters(self, first: int, end: int) -> Iterator[str]:
        """Texts between the commas of a parameter list, without default values."""
        start = place = first
        while place < end:
            if self._tokens[place] in _PAIRS:
                place = self._closing_place(place)
            elif self._tokens[place] == ",":
                yield _common_spelling(self._tokens[start:place])
                start = place + 1
            place += 1
        if end > start:
            yield _common_spelling(self._tokens[start:end])

    def _note_struct(self, start: int, opening: int) -> None:
        head = self._tokens[start:opening]
        for place, word in enumerate(head):
            if word in ("struct", "class", "union"):
                names = [w for w in head[place + 1 :] if _WORD.fullmatch(w)]
                names = [w for w in names if not _ATTRIBUTES.fullmatch(w)]
                if names:
                    members = self._tokens[opening + 1 : self._closing_place(opening)]
                    self.structs[names[0]] = tuple(members)
                return

    def _note_template(self, first: int, end: int) -> None:
        """Note the names of template parameters, which lie between two places."""
        for parameter in self._parameters(first, end):
            for name in _WORD.findall(parameter)[-1:]:
                self.template_parameters[name] = self._place(self._matches[first].start())

    def _closing_place(self, opening: int) -> int:
        """Place of the bracket that closes the opening one, or the end."""
        bracket = self._tokens[opening]
        counterpart, depth = _PAIRS[bracket], 0
        for place in range(opening, len(self._tokens)):
            word = self._tokens[place]
            depth += (word == bracket) - (word == counterpart)
            if depth == 0:
                return place
        return len(self._tokens)

    def _token_at(self, place: int) -> str:
        return self._tokens[place] if 0 <= place < len(self._tokens) else ""

    def _position(self, place: int) -> int:
        return self._matches[place].start() if place < len(self._matches) else len(self._text)

    def _place(self, position: int) -> str:
        return f"{self._file}:{self._text.count(chr(10), 0, position) + 1}"


def _without_nested(tokens: Iterable[str]) -> Iterator[str]:
    """Tokens outside of braces; each pair of braces ends a member."""
    depth = 0
    for word in tokens:
        depth += (word == "{") - (word == "}")
        if word == "}" and depth == 0:
            yield ";"
        elif depth == 0:
            yield word


def _common_spelling(tokens: list[str]) -> str:
    """Text of tokens in common spelling, `const float** x`, without a default value."""
    end = tokens.index("=") if "=" in tokens else len(tokens)
    text = " ".join(tokens[:end]).replace(" : : ", "::").replace(". . .", "...")
    return re.sub(r" (?=[*&,<>\[\]])|(?<=[<\[]) ", "", text)
