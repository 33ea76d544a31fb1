"""What a person sees while a run goes on."""

import io
import sys

import pytest
from rich.console import Console

from profiler.errors import UsageError
from profiler.machine.console import make_console
from profiler.model import Cell, Problem, Variant
from profiler.runner import protocol
from profiler.sessions.forecasts.session_costs import TypicalVisit
from profiler.sessions.progress import ProgressReporter, VisitProgress

CELLS = {
    f"{name}..p": Cell(f"{name}..p", Variant(name, name.upper()), Problem("p", "4096"))
    for name in ("a", "b")
}

TYPICAL = TypicalVisit(overhead_s=0.02, launches=1)


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


class Clock:
    """Seconds that pass with every record."""

    def __init__(self, step=0.0):
        self.now, self.step = 0.0, step

    def __call__(self):
        return self.now


def follow(reporter, records, remaining=None, step=0.0, **options):
    counts = dict(remaining or {"a..p": 2, "b..p": 1})
    clock = Clock(step)
    with VisitProgress(reporter, "timing", CELLS, counts, clock=clock, **options) as progress:
        for record in records:
            clock.now += clock.step
            progress.record({**record, "time": clock.now})
    return said(reporter).splitlines()


STARTED = {"event": protocol.SESSION_STARTED}


def started(cell):
    return {**visited(cell), "event": protocol.STARTED}


# ---- visits --------------------------------------------------------------------------------------


def test_a_session_has_a_line_at_its_end(reporter):
    records = [visited("a..p"), visited("b..p"), visited("a..p")]
    assert follow(reporter(), records) == ["timing: 3/3 visits, 2/2 cells in 0.0 s"]


def test_a_line_comes_every_five_seconds_however_many_cells_there_are(reporter):
    records = [STARTED, *[started("a..p"), visited("a..p")] * 500]
    lines = follow(
        reporter(), records, {"a..p": 500, "b..p": 100}, step=0.0625, typical_visit=TYPICAL
    )
    assert len(lines) == 12 + 1  # of 62.6 s
    assert lines[0] == "timing: 40/600 visits, 0/2 cells, 8.0/s, about 70 s left"
    assert lines[-1] == "timing: 500/600 visits, 1/2 cells in 63 s"


def test_a_first_visit_does_not_tell_what_is_left(reporter):
    """It has what a tool takes once: of 600 visits of 20 ms it would say an hour."""
    records = [STARTED, started("a..p"), visited("a..p")]
    lines = follow(reporter(), records, {"a..p": 600}, step=6.0, typical_visit=TYPICAL)
    assert lines[0] == "timing: 1/600 visits, 0/1 cells"


def test_a_further_pass_of_counters_shows_that_the_session_goes_on(reporter):
    again = {**visited("a..p"), "phase": protocol.COUNT}
    records = [STARTED, started("a..p"), visited("a..p"), *[again] * 3]
    lines = follow(reporter(), records, {"a..p": 1}, step=2.0, typical_visit=TYPICAL)
    assert lines == [
        "timing: 1/1 visits, 1/1 cells, in a further pass of counters",
        "timing: 1/1 visits, 1/1 cells in 12 s",
    ]


@pytest.mark.parametrize("fails_again", [False, True])
def test_an_illegal_address_is_no_failure_until_its_second_try_decides(reporter, fails_again):
    illegal = {**failure("a..p", "misaligned"), "outcome": "illegal_address"}
    printer = reporter()
    counts = {"a..p": 2, "b..p": 1}
    with VisitProgress(printer, "timing", CELLS, counts, clock=Clock()) as progress:
        for record in (visited("b..p"), visited("a..p"), illegal):
            progress.record(record)
        progress.settle(failed_cells=())
        assert "FAILED" not in said(printer)
        progress.record(illegal if fails_again else visited("a..p"))
        progress.settle(failed_cells=("a..p",) if fails_again else ())
    lines = said(printer).splitlines()
    assert lines == [
        *(["A 4096  FAILED illegal_address: misaligned"] if fails_again else []),
        "timing: 3/3 visits, 2/2 cells in 0.0 s",
    ]


def test_a_phase_that_takes_long_is_named_less_and_less_often(reporter):
    clock, screen = Clock(), reporter()
    counts = {"a..p": 1, "b..p": 2}
    advice = "; --fast is quicker"
    with VisitProgress(
        screen, "timing", CELLS, counts, visit_advice=advice, clock=clock
    ) as progress:
        progress.record({**started("a..p"), "phase": protocol.CHECK})
        for _ in range(60):
            clock.now += 1
            progress.look()
        progress.record({**visited("a..p"), "phase": protocol.CHECK})
        clock.now += 60
        progress.look()  # nothing goes on
        for _ in range(2):  # the second is no news
            progress.record(started("b..p"))
            clock.now += 15
            progress.look()
            progress.record(visited("b..p"))
        progress.record({**started("b..p"), "phase": protocol.REFERENCE})
        clock.now += 10
        progress.look()
        for after in (lambda: progress.record(STARTED), lambda: progress.failed("b..p", "died")):
            progress.record({**started("b..p"), "phase": protocol.CHECK})
            after()  # another process goes on, or its cell is to blame
            clock.now += 60
            progress.look()
    assert [line for line in said(screen).splitlines() if "so far" in line] == [
        *(
            f"timing: A 4096, first launch: {seconds} s so far; may compile or tune"
            for seconds in (10, 20, 40)
        ),
        "timing: B 4096, visit: 15 s so far; --fast is quicker",
        "timing: 4096, reference: 10 s so far",
    ]


def test_a_line_names_the_lowest_median_so_far_at_the_problem_of_its_visit(reporter):
    records = [visited("b..p", 3000.0, 1000.0, 2000.0), visited("a..p", 5000.0)]
    state = follow(reporter(), records, step=3.0)[0]
    assert state.endswith("lowest so far B 4096: 2.00 µs")
    line = follow(reporter(), [visited("b..p")], step=6.0, durations_ns={"a..p": 1500.0})[0]
    assert line.endswith("lowest so far A 4096: 1.50 µs")  # of an earlier session


def test_a_failure_is_said_at_once_with_the_first_line_of_its_cause(reporter):
    lines = follow(reporter(), [failure("a..p"), visited("b..p")])
    assert lines == [
        "A 4096  FAILED wrong_result: off",
        "timing: 3/3 visits, 2/2 cells in 0.0 s",
    ]


def test_a_cell_that_fails_after_its_last_visit_counts_once_and_is_not_the_lowest(reporter):
    records = [visited("b..p", 1000.0), failure("b..p"), visited("a..p"), visited("a..p", 5000.0)]
    lines = follow(reporter(), records, step=3.0)
    assert "lowest so far B" not in "".join(lines)
    assert lines[-1] == "timing: 3/3 visits, 2/2 cells in 12 s"


def test_the_rate_counts_from_the_first_visit_and_tells_what_is_left_without_a_forecast(reporter):
    clock = Clock()
    slow = reporter()
    with VisitProgress(slow, "timing", CELLS, {"a..p": 8, "b..p": 2}, clock=clock) as progress:
        for now in (4.0, 5.0, 6.0):  # the tool took four seconds to start
            clock.now = now
            progress.visited("a..p")
    assert said(slow).splitlines()[0] == ("timing: 2/10 visits, 0/2 cells, 1.0/s, about 8.0 s left")


def test_only_some_failures_have_a_line_and_none_is_longer_than_a_line(reporter):
    cells = {
        f"c{n}..p": Cell(f"c{n}..p", Variant(f"c{n}", f"C{n}"), Problem("p", "4096"))
        for n in range(13)
    }
    counts = dict.fromkeys(cells, 1)
    for verbose, lines in ((False, 10 + 2), (True, 13 + 1)):
        printer = reporter(verbose=verbose)
        with VisitProgress(printer, "timing", cells, dict(counts), clock=Clock()) as progress:
            for cell in cells:
                progress.failed(cell, cell + "x" * 1000)
        text = said(printer).splitlines()
        assert len(text) == lines
        assert max(map(len, text)) < 200
        assert ("timing: 3 more failed; the results tell why" in text) is not verbose


def test_a_cause_has_one_line_whatever_it_costs(reporter):
    cells = {
        f"c{n}..p": Cell(f"c{n}..p", Variant("c", "C"), Problem("p", "4096")) for n in range(3)
    }
    printer = reporter()
    with VisitProgress(
        printer, "timing", cells, dict.fromkeys(cells, 1), clock=Clock()
    ) as progress:
        for cell in cells:
            progress.failed(cell, "raised: NameError", with_problem=True)
    first, *_, last = said(printer).splitlines()
    assert first == "all at 4096  FAILED raised: NameError"
    assert last == "timing: 2 more failed in the same way"


def test_a_visit_that_is_made_again_counts_once(reporter):
    records = [*[visited("b..p")] * 3, *[visited("a..p")] * 4]
    assert follow(reporter(), records) == ["timing: 3/3 visits, 2/2 cells in 0.0 s"]


def test_what_is_not_about_a_visit_is_passed_over(reporter):
    records = [
        STARTED,
        {**visited("a..p"), "phase": protocol.WARMUP},
        started("a..p"),
        visited("unknown..p"),
        failure("unknown..p"),
        {**failure("a..p"), "cell": None},
    ]
    assert follow(reporter(), records, {"a..p": 1, "b..p": 1}) == []


def test_a_failure_without_words_and_of_another_session(reporter):
    quiet = reporter()
    with VisitProgress(quiet, "timing", CELLS, {"a..p": 1}, clock=Clock()) as progress:
        progress.failed("b..p", "not one of these")
        progress.failed("a..p", "")
    assert said(quiet).splitlines() == [
        "A 4096  FAILED",
        "timing: 1/1 visits, 1/1 cells in 0.0 s",
    ]


def test_on_a_terminal_one_line_lives_and_only_failures_are_told(reporter):
    text = "\n".join(follow(reporter(terminal=True), [visited("b..p"), failure("a..p")]))
    assert "timing" in text
    assert "3/3" in text
    assert "FAILED wrong_result: off" in text
    assert "1/2 cells" not in text


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


def test_a_text_is_printed_as_it_is(stream):
    screen = stream(terminal=True, COLUMNS="40")
    text = f"[bold]{'word ' * 20}[/bold]"
    make_console("always").print(text)
    assert screen.getvalue() == f"{text}\n"


def test_tables_are_not_squeezed_where_nobody_looks(stream):
    stream(terminal=False)
    assert make_console("auto").width == 200


def test_results_go_to_stdout_and_progress_to_stderr(capsys):
    reporter = ProgressReporter.for_terminal(color="never")
    reporter.results.print("a table")
    reporter.say("a step")
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("a table\n", "a step\n")
