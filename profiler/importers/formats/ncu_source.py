"""Source pages of ncu as CSV."""

from __future__ import annotations

from profiler.errors import ParseError
from profiler.importers.given_file import GivenFile
from profiler.importers.importer import Importer
from profiler.importers.source_listings import ImportedSource, listed_kernels
from profiler.parse.ncu_source import is_source_page, read_source_page


def _read(file: GivenFile) -> ImportedSource:
    page = read_source_page(file.text if file.is_wrapped else file.path)
    if not page.listings:
        raise ParseError(
            f"{file.name}: a source page without instructions",
            remedy="Print it with --print-source sass or cuda,sass.",
        )
    return ImportedSource(listed_kernels(file.name, page.listings), page.notices)


IMPORTER = Importer(
    name="a source page of ncu",
    files="CSV of `ncu --import FILE --csv --page source --print-source sass` or `cuda,sass`",
    gives=ImportedSource,
    read=_read,
    is_in=is_source_page,
)
