"""Formats that `profiler import` knows, as docs/import.md has them: a row for each importer."""

from profiler.importers.registry import IMPORTERS


def formats():
    """What is read, sorted by what is shown of it; then what is only named."""
    kinds = list(dict.fromkeys(importer.gives for importer in IMPORTERS if importer.gives))
    lines = ["| files | show |", "|---|---|"]
    for kind in kinds:
        files = [importer.files for importer in IMPORTERS if importer.gives is kind]
        lines += [f"| {_sentence(text)} | {kind.shows} |" for text in files]
    named = [importer.files for importer in IMPORTERS if importer.gives is None]
    lines += [f"| {_sentence(text)} | nothing, but they are named |" for text in named]
    return "\n".join([*lines, ""])


def _sentence(text):
    return text[:1].upper() + text[1:]
