"""Grids that are counted in waves, for the terminal: how many blocks each variant needs."""

from __future__ import annotations

from rich.table import Table

from profiler.analyse.waves import tail_efficiency
from profiler.findings.roles import Ranking
from profiler.render.console.terminal import columns, plain, table
from profiler.render.kinds.waves import NEED_HEADS, need_rows, wave_table, waves_sentences
from profiler.render.words.answer import Sentence


def waves_answer(ranking: Ranking) -> tuple[Sentence, ...]:
    """The sentences of the page of waves; empty where no efficiency is known."""
    return waves_sentences(ranking, tail_efficiency(wave_table(ranking.lookup)))


def needs_table(ranking: Ranking) -> Table:
    """From how many waves and blocks on each variant keeps its tail efficiency."""
    lookup = ranking.lookup
    found = table("How many blocks fill the GPU")
    columns(found, "variant")
    columns(found, *NEED_HEADS[:-1], right=True)
    columns(found, NEED_HEADS[-1])
    for row in need_rows(lookup, tail_efficiency(wave_table(lookup))):
        found.add_row(plain(row.name), *(plain(datum.text) for datum in row.data))
    return found
