"""What a person sees while a run goes on."""

import io
import sys

import pytest
from rich.console import Console

from profiler.errors import UsageError
from profiler.model import Cell, Problem, Variant
from profiler.runner import protocol
from profiler.sessions.progress import ProgressReporter, VisitProgress, make_console

CELLS = {
    f"{name}..p": Cell(f"{name}..p", Variant(name, name.upper()), Problem("p", "4096"))
    for name in ("a", "b")
}


class Screen(io.StringIO):
    """A stream that is a terminal or not."""

    def __init__(self, terminal):
        super().__init__()
        self.terminal = terminal

    def isatty(self):
        return self.terminal


@pytest.fixture
def reporter():
    def make(terminal=False, **options):
        console = Console(file=Screen(terminal), force_terminal=terminal, width=80)
        return ProgressReporter(results=console, progress=console, **options)

    return make


def said(reporter):
    return reporter.progress.file.getvalue()


def visited(cell, *durations):
    record = {"event": protocol.FINISHED, "phase": protocol.MEASURE, "cell": cell, "block": 0}
    return {**record, "durations_ns": list(durations)} if durations else record


def failure(cell, cause="off\nsecond line"):
    return {
        "event": protocol.FAILED,
        "cell": cell,
        "phase": protocol.CHECK,
        "outcome": "wrong_result",
        "cause": cause,
    }


def follow(reporter, records, remaining=None):
    counts = dict(remaining or {"a..p": 2, "b..p": 1})
    with VisitProgress(reporter, "timing", CELLS, counts) as progress:
        for record in records:
            progress.record(record)
    return said(reporter).splitlines()


# ---- visits --------------------------------------------------------------------------------------


def test_one_line_per_cell_when_its_last_visit_is_done(reporter):
    records = [visited("a..p", 1500.0, 900.0, 1000.0), visited("b..p"), visited("a..p", 2000.0)]
    assert follow(reporter(), records) == ["[1/2] B 4096", "[2/2] A 4096  2.0 us"]


def test_the_time_is_the_median_of_the_visit(reporter):
    lines = follow(reporter(), [visited("b..p", 3000.0, 1000.0, 2000.0)])
    assert lines == ["[1/2] B 4096  2.0 us"]


def test_a_failure_ends_a_cell_with_the_first_line_of_its_cause(reporter):
    lines = follow(reporter(), [failure("a..p"), visited("b..p")])
    assert lines == ["[1/2] A 4096  FAILED wrong_result: off", "[2/2] B 4096"]


def test_a_visit_that_is_made_again_counts_once(reporter):
    records = [*[visited("b..p")] * 3, *[visited("a..p")] * 4]
    assert follow(reporter(), records) == ["[1/2] B 4096", "[2/2] A 4096"]


def test_what_is_not_about_a_visit_is_passed_over(reporter):
    records = [
        {"event": protocol.SESSION_STARTED},
        {**visited("a..p"), "phase": protocol.WARMUP},
        {**visited("a..p"), "event": protocol.STARTED},
        visited("unknown..p"),
        failure("unknown..p"),
        {**failure("a..p"), "cell": None},
    ]
    assert follow(reporter(), records, {"a..p": 1, "b..p": 1}) == []


def test_a_failure_without_words_and_of_another_session(reporter):
    quiet = reporter()
    with VisitProgress(quiet, "timing", CELLS, {"a..p": 1}) as progress:
        progress.failed("b..p", "not one of these")
        progress.failed("a..p", "")
    assert said(quiet).splitlines() == ["[1/1] A 4096  FAILED"]


def test_counters_line_up(reporter):
    cells = {f"{n}..p": Cell(f"{n}..p", Variant(str(n), "v"), Problem("p", "p")) for n in range(10)}
    teller = reporter()
    with VisitProgress(teller, "timing", cells, dict.fromkeys(cells, 1)) as progress:
        for cell in cells:
            progress.visited(cell)
    lines = said(teller).splitlines()
    assert (lines[0], lines[-1]) == ("[ 1/10] v p", "[10/10] v p")


def test_on_a_terminal_one_line_lives_and_only_failures_are_told(reporter):
    text = "\n".join(follow(reporter(terminal=True), [visited("b..p"), failure("a..p")]))
    assert "timing" in text
    assert "3/3" in text
    assert "FAILED wrong_result: off" in text
    assert "[1/2] B" not in text


def test_quiet_says_nothing_but_warnings(reporter):
    silent = reporter(quiet=True, verbose=True)
    assert follow(silent, [visited("b..p"), failure("a..p")]) == []
    silent.say("a line")
    silent.detail("a detail")
    silent.warn("Replaying [a recording]")
    assert said(silent).split() == ["Replaying", "[a", "recording]"]


def test_a_terminal_is_left_alone_by_quiet(reporter):
    assert follow(reporter(terminal=True, quiet=True), [visited("b..p")]) == []


def test_details_are_for_those_who_asked(reporter):
    plain, verbose = reporter(), reporter(verbose=True)
    for teller in (plain, verbose):
        teller.detail("build: step 3 of 9")
    assert (said(plain), said(verbose)) == ("", "build: step 3 of 9\n")


def test_names_are_no_markup_and_long_lines_are_not_broken(reporter):
    teller = reporter()
    line = "[bold]" + "x" * 200 + "[/nothing]"
    teller.say(line)
    assert said(teller) == line + "\n"


# ---- consoles ------------------------------------------------------------------------------------


@pytest.fixture
def stream(monkeypatch):
    """A stdout that is a terminal or not; rich's own variables are gone."""

    def make(terminal, **environment):
        for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("TERM", "xterm-256color")
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        screen = Screen(terminal)
        monkeypatch.setattr(sys, "stdout", screen)
        return screen

    return make


@pytest.mark.parametrize(
    ("color", "terminal", "environment", "coloured"),
    [
        ("auto", True, {}, True),
        ("auto", False, {}, False),
        ("auto", True, {"NO_COLOR": "1"}, False),
        ("auto", True, {"NO_COLOR": ""}, True),
        ("always", False, {}, True),
        ("always", True, {"NO_COLOR": "1"}, True),
        ("never", True, {}, False),
    ],
)
def test_colour(stream, color, terminal, environment, coloured):
    screen = stream(terminal, **environment)
    make_console(color).print("word", style="yellow")
    assert ("\x1b[33m" in screen.getvalue()) == coloured
    assert "word" in screen.getvalue()


def test_an_unknown_colour_is_refused():
    with pytest.raises(UsageError, match="--color sometimes: not one of auto, always, never"):
        make_console("sometimes")


def test_tables_are_not_squeezed_where_nobody_looks(stream):
    stream(terminal=False)
    assert make_console("auto").width == 200


def test_results_go_to_stdout_and_progress_to_stderr(capsys):
    reporter = ProgressReporter.for_terminal(color="never")
    reporter.results.print("a table")
    reporter.say("a step")
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("a table\n", "a step\n")
