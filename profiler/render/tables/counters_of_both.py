"""Table of the counters of both cells of an explained pair."""

from __future__ import annotations

from profiler.findings.why.counters import Amount, CounterOfBoth
from profiler.findings.why.pairs import PairWhy
from profiler.render.tables.rows import Datum, TextRow, raw_or_none
from profiler.render.words import numbers
from profiler.render.words.counters_of_both import NAMES, amount_words, group_words


def counter_rows(pair: PairWhy) -> tuple[TextRow, ...]:
    """Amount in both cells, first ÷ second, part of the account; () where nothing is explained."""
    return tuple(
        TextRow(
            NAMES[counter.name],
            (
                _amount(counter, counter.first),
                _amount(counter, counter.second),
                _ratio(counter),
                Datum(group_words(counter), None),
            ),
        )
        for counter in pair.counters
    )


def _amount(counter: CounterOfBoth, amount: Amount) -> Datum:
    return Datum(amount_words(counter, amount), raw_or_none(amount.value))


def _ratio(counter: CounterOfBoth) -> Datum:
    """First ÷ second; words where only one of them has any."""
    if counter.first.text:
        return Datum(title="no numbers", css="none")
    if not counter.first.value or not counter.second.value:
        return Datum(f"only the {'second' if counter.second.value else 'first'}", None)
    return Datum(numbers.change(counter.ratio), numbers.raw(counter.ratio))
