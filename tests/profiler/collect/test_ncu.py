"""Nsight Compute: finding it, its command line, and what its messages mean."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from run_folders import fake_ncu
from test_programs import program

from profiler.collect import Command
from profiler.collect.ncu import (
    INSTALLED,
    LOG,
    NVTX_INCLUDE,
    RECOVERED,
    REPORT,
    RULES,
    SASS,
    SOURCE,
    Ncu,
    cell_fault,
    diagnose,
    has_rows,
    launch_filter,
    no_kernels,
)
from profiler.collect.timer import RUNNER
from profiler.errors import EnvironmentUnusable
from profiler.machine.installs import ncu_version
from profiler.model import Outcome
from profiler.parse.ncu_csv import parse_ncu_csv, read_ncu_csv
from profiler.parse.ncu_source import read_source_page
from profiler.runner.protocol import NVTX_DOMAIN, range_name, roof_range_name

FAKE_NCU = Path(__file__).parents[2] / "fake_ncu/ncu"


class TestVersion:
    def test_version_is_read_in_the_real_format(self):
        assert ncu_version(FAKE_NCU) == "2025.3.1.0"

    def test_old_version_is_refused(self, monkeypatch):
        monkeypatch.setenv("FAKE_NCU_MODE", "old_version")
        version = ncu_version(FAKE_NCU)
        with pytest.raises(EnvironmentUnusable, match=r"2022\.4\.1\.0 is too old.*2025\.1"):
            INSTALLED.require_version(version)

    @pytest.mark.parametrize("version", ["2025.1.0.0", "2025.3.1.0", "2026.1", "2025.10.0"])
    def test_newer_versions_are_accepted(self, version):
        INSTALLED.require_version(version)

    def test_something_else_called_ncu_is_refused(self, tmp_path):
        with pytest.raises(EnvironmentUnusable, match="printed no version"):
            ncu_version(program(tmp_path / "ncu"))
        with pytest.raises(EnvironmentUnusable, match="cannot be run"):
            ncu_version(tmp_path / "absent")


METRICS = ("gpu__time_duration.sum", "launch__registers_per_thread")


def options(*, metrics=METRICS, launches=None):
    """Arguments for ncu that profile the runner, or a program by its launches."""
    tool, folder = Ncu(Path("ncu"), python="python"), Path("/out")
    if launches is None:
        return list(tool.session_command(Path("job.json"), folder, metrics).argv[1:])
    return list(tool.command(["./program", "4096"], folder, metrics, launches).argv[1:])


class TestCommand:
    @pytest.mark.parametrize(
        ("option", "value"),
        [
            ("--config-file", "off"),
            ("--rename-kernels", "off"),
            ("--print-units", "base"),
            ("--page", "raw"),
            ("--clock-control", "none"),
            ("--cache-control", "all"),
            ("--log-file", "/out/ncu.csv"),
            ("-o", "/out/report.ncu-rep"),
            ("--target-processes", "all"),
            ("--nvtx-include", NVTX_INCLUDE),
            ("--metrics", "gpu__time_duration.sum,launch__registers_per_thread"),
        ],
    )
    def test_what_every_session_passes(self, option, value):
        arguments = options()
        assert arguments[arguments.index(option) + 1] == value

    def test_metrics_that_sections_define_are_found_in_them(self):
        assert "--section-folder" in options()
        assert "--section-folder" not in options(metrics=["gpu__time_duration.sum", "derived__x"])

    @pytest.mark.parametrize(("attached", "option"), [(True, "all"), (False, "application-only")])
    def test_children_are_profiled_unless_they_shall_not(self, attached, option):
        tool = Ncu(Path("ncu"), child_processes=attached)
        session = tool.session_command(Path("job.json"), Path("folder"), ["a"])
        external = tool.command(["./program"], Path("folder"), ["a"], launch_filter())
        for built in (session, external):
            assert built.argv[built.argv.index("--target-processes") + 1] == option

    def test_inductor_starts_no_workers_in_the_runner_alone(self):
        session = Ncu(Path("ncu")).session_command(Path("job.json"), Path("folder"), ["a"])
        command = ["./program"], Path("folder"), ["a"], launch_filter()
        external = Ncu(Path("ncu")).command(*command)
        assert session.env["TORCHINDUCTOR_COMPILE_THREADS"] == "1"
        assert "TORCHINDUCTOR_COMPILE_THREADS" not in external.env

    def test_target_comes_last_and_whole(self):
        assert options()[-4:] == ["python", "-P", str(RUNNER), "job.json"]
        assert options(launches=launch_filter())[-2:] == ["./program", "4096"]
        assert {"--csv", "--nvtx", "-f"} <= set(options())

    @pytest.mark.parametrize("name", [range_name("a..p0", 3, 1), roof_range_name("memory", 0)])
    def test_include_is_the_ranges_of_the_runner(self, name):
        assert re.fullmatch(NVTX_INCLUDE.removeprefix("regex:").removesuffix("/"), name)

    def test_filter_of_an_external_command(self):
        launches = launch_filter("regex:^sgemm", skip=2, count=3)
        arguments = options(launches=launches)
        assert "--nvtx-include" not in arguments
        assert "--nvtx" in arguments
        position = arguments.index("--kernel-name")
        assert arguments[position : position + 6] == [
            *("--kernel-name", "regex:^sgemm", "--launch-skip", "2"),
            *("--launch-count", "3"),
        ]

    def test_filter_passes_only_what_was_given(self):
        unfiltered = options(launches=launch_filter())
        assert not {"--kernel-name", "--launch-skip", "--launch-count"} & set(unfiltered)
        assert "--nvtx-include" not in unfiltered
        assert "0" in options(launches=launch_filter(skip=0))

    def test_session_runs_the_runner_in_a_fixed_locale(self, tmp_path):
        ncu = Ncu(FAKE_NCU, cache_control="none", clock_control="base", python="/py")
        made = ncu.session_command(tmp_path / "job.json", tmp_path, ["m"])
        assert isinstance(made, Command)
        assert made.argv[0] == str(FAKE_NCU)
        assert made.argv[-4:] == ("/py", "-P", str(RUNNER), str(tmp_path / "job.json"))
        assert made.env == {"LC_ALL": "C", "TORCHINDUCTOR_COMPILE_THREADS": "1"}
        assert made.files == {"log": tmp_path / LOG, "report": tmp_path / REPORT}
        assert made.argv[made.argv.index("--cache-control") + 1] == "none"

    def test_replay_mode_is_passed_where_it_is_not_that_of_kernels(self, tmp_path):
        ranges = Ncu(FAKE_NCU, replay_mode="range").session_command(tmp_path, tmp_path, ["m"])
        assert ranges.argv[ranges.argv.index("--replay-mode") + 1] == "range"
        assert NVTX_INCLUDE in ranges.argv  # the ranges that are replayed
        assert "--replay-mode" not in Ncu(FAKE_NCU).session_command(tmp_path, tmp_path, []).argv

    def test_recovery_needs_a_report_and_a_log_without_rows(self, tmp_path):
        ncu = Ncu(FAKE_NCU)
        assert ncu.recover_command(tmp_path) is None
        (tmp_path / REPORT).write_text("x")
        assert ncu.recover_command(tmp_path) is not None
        (tmp_path / LOG).write_text('==PROF== x\n"ID","Process ID"\n')
        assert ncu.recover_command(tmp_path) is None

    def test_recovery_is_a_command_that_ncu_takes(self, tmp_path):
        """2025.3.1 refuses `--nvtx` together with `--import`."""
        report(tmp_path / REPORT)
        done, _ = ran(Ncu(FAKE_NCU).recover_command(tmp_path))
        assert done == 0
        launches = read_ncu_csv(tmp_path / RECOVERED).launches
        assert [ranges[0].domain for ranges in launches["nvtx"]] == [NVTX_DOMAIN]

    def test_pages_of_a_report_are_commands_that_ncu_takes(self, tmp_path):
        report(tmp_path / REPORT)
        pages = {name: ran(page) for name, page in Ncu(FAKE_NCU).page_commands(tmp_path).items()}
        assert [code for code, _ in pages.values()] == [0, 0, 0, 0]
        rules, sass, source = (pages[name][1] for name in (RULES, SASS, SOURCE))
        assert list(parse_ncu_csv(rules.encode(), RULES).rules["rule"]) == ["SourceCountersRule"]
        assert not read_source_page(sass)[0][0].has_lines
        assert read_source_page(source)[0][0].has_lines

    def test_sections_and_sources_are_asked_for_where_cells_are_explained(self, tmp_path):
        made = Ncu(FAKE_NCU).explaining(("Occupancy", "SourceCounters"))
        argv = " ".join(made.session_command(tmp_path / "job.json", tmp_path, ["m"]).argv)
        assert "--section Occupancy --section SourceCounters --import-source yes" in argv
        assert "--section-folder" not in argv  # its own folder has them
        plain = Ncu(FAKE_NCU).session_command(tmp_path / "job.json", tmp_path, ["m"])
        assert not {"--section", "--import-source"} & set(plain.argv)
        assert not [*Path(plain.argv[plain.argv.index("--section-folder") + 1]).glob("*.section")]


def report(path):
    """Report of the stand-in with one launch of an explain session."""
    head = {"metrics": "smsp__inst_executed.sum", "sections": ["SourceCounters"], "source": True}
    rows = fake_ncu.Rows([head["metrics"]])
    launch = rows.make(0, 1, "plain..small", 0, "plain()", "cell=plain..small;block=0")
    path.write_text(f"{json.dumps(head)}\n{json.dumps(launch)}\n")


def ran(made):
    done = subprocess.run(made.argv, check=False, capture_output=True, text=True)
    return done.returncode, done.stdout


PERMISSION = (
    "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU "
    "Performance Counters on the target device 0."
)


class TestMessages:
    @pytest.mark.parametrize(
        ("line", "message", "remedy"),
        [
            (PERMISSION, "performance counters", "NVreg_RestrictProfilingToAdminUsers=0"),
            (PERMISSION, "performance counters", "--timer (collect.collectors=timer) gives verd"),
            (
                "==ERROR== Profiling failed because a driver resource was unavailable. Ensure that "
                "no other tool (like DCGM) is concurrently collecting profiling data.",
                "Another tool",
                "dcgmi profile --pause",
            ),
            ("==ERROR== Failed to open/create lock file /tmp/x.", "lock file", "TMPDIR"),
            ("==ERROR== InterprocessLockFailed", "lock file", "TMPDIR"),
            ("==ERROR== Cuda driver is not compatible with Nsight Compute.", "driver", "Update"),
            (
                "==ERROR== Failed to initialize the profiler: LibraryNotLoaded. Check that a "
                "compatible driver library is loaded.",
                "library",
                "gVisor",
            ),
            (
                "==ERROR== unrecognised option '--rename-kernels'. Use --help for further details.",
                "2025.1 or newer",
                "PROFILER_NCU",
            ),
            ("==ERROR== Option '--section x' did not match any section.", "section", "--list-sec"),
            (
                "==ERROR== Failed to access the following metrics. When profiling on a MIG "
                "instance, it is not possible to collect metrics from GPU units that are shared.",
                "MIG",
                "Leave those metrics out",
            ),
            ("==ERROR== Failed to find metric regex:^x(\\.(sum|min))?$", "metric", "--query-met"),
        ],
    )
    def test_each_fault_of_the_machine_has_its_message_and_remedy(self, line, message, remedy):
        for where in ((line, "", ""), ("", line, ""), ("", "", line)):
            error = diagnose(*where)
            assert message in error.message
            assert remedy in error.remedy

    def test_the_words_of_ncu_are_quoted(self):
        assert PERMISSION in diagnose(f"x\n{PERMISSION}\ny", "", "").message

    def test_a_program_may_print_what_it_likes(self):
        assert diagnose("", "ERR_NVGPUCTRPERM is explained here", "LibraryNotLoaded") is None

    def test_a_crash_of_the_target_is_not_the_machine(self):
        log = (
            "==PROF== Connected to process 11927 (/usr/bin/python3.12)\n"
            "==ERROR== An error was reported by the driver:\n"
            "==ERROR== LaunchFailed\n"
            "==PROF== Trying to shutdown target application\n"
            "==ERROR== The application returned an error code (9).\n"
        )
        assert diagnose(log, "", "") is None
        assert cell_fault(log)[0] is Outcome.ILLEGAL_ADDRESS
        assert cell_fault("==ERROR== The application returned an error code (11).") is None

    def test_a_run_without_kernels_says_so(self):
        log = "==PROF== Disconnected from process 1\n==WARNING== No kernels were profiled.\n"
        assert diagnose(log, "", "") is None
        assert "no kernel" in no_kernels(log).message
        assert no_kernels("") is None

    def test_runner_without_torch_is_the_machine(self, tmp_path):
        (tmp_path / "stderr.txt").write_text("ModuleNotFoundError: No module named 'torch'\n")
        ncu = Ncu(FAKE_NCU)
        assert "torch" in ncu.diagnose(tmp_path, 1).message
        assert ncu.diagnose(tmp_path, 0) is None

    @pytest.mark.parametrize(
        ("log", "rows"),
        [("", False), ("==PROF== x\n", False), ('"ID","x"', True), ('==PROF==\n"ID","x"', True)],
    )
    def test_rows_begin_with_the_header(self, log, rows):
        assert has_rows(log) is rows


def test_the_stand_in_is_a_program():
    assert os.access(FAKE_NCU, os.X_OK)
