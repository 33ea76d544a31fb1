"""Nsight Systems: finding it, its command lines, and what its messages mean."""

from functools import partial
from pathlib import Path

import pytest
from test_programs import program

from profiler.collect import STDERR, STDOUT
from profiler.collect.nsys import (
    EXPORT,
    INSTALLED,
    RAW,
    REPORT,
    Nsys,
    convert_command,
    convert_failed,
    diagnose,
    find_importer,
    missing_library,
)
from profiler.collect.timer import RUNNER
from profiler.errors import EnvironmentUnusable
from profiler.runner.protocol import CAPTURE_PROGRAM, CAPTURE_VISITS

NO_IMPORTER = (
    "Importer error status: The importer binary and its dependencies were not found.\n"
    "Unable to retrieve the importer version: skipping importation of the QDSTRM file.\n"
    "Generated:\n    /out/report.qdstrm\n"
)
NO_LIBDW = (
    "QdstrmImporter: error while loading shared libraries: libdw.so.1: cannot open shared object "
    "file: No such file or directory\n"
)


def leave(path):
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"")


class TestImporter:
    @pytest.mark.parametrize(
        ("nsys", "importer"),
        [
            ("host/target-linux-x64/nsys", "host/linux-desktop-glibc_2_11_3-x64/QdstrmImporter"),
            ("target-linux-x64/nsys", "host-linux-x64/QdstrmImporter"),
            ("bin/nsys", "host-linux-x64/QdstrmImporter"),
        ],
    )
    def test_importer_of_an_install(self, tmp_path, nsys, importer):
        path = program(tmp_path / nsys)
        assert find_importer(path) is None
        assert Nsys(path).importer_command() is None
        expected = program(tmp_path / importer)
        assert find_importer(path) == expected
        assert Nsys(path).importer_command().argv == (str(expected), "--version")

    def test_importer_is_found_through_a_link(self, tmp_path):
        path = program(tmp_path / "install/target-linux-x64/nsys")
        importer = program(tmp_path / "install/host-linux-x64/QdstrmImporter")
        link = tmp_path / "bin/nsys"
        link.parent.mkdir()
        link.symlink_to(path)
        assert find_importer(link) == importer


class TestVersion:
    @pytest.mark.parametrize(
        ("printed", "version"),
        [
            ("NVIDIA Nsight Systems version 2025.3.2.0\n", "2025.3.2.0"),
            ("NVIDIA Nsight Systems version 2025.6.3.541-256337736014v0\n", "2025.6.3.541"),
            ("NVIDIA Nsight Systems version 2020.5.1.85-5ee086b\n", "2020.5.1.85"),
        ],
    )
    def test_version_is_read(self, printed, version):
        assert INSTALLED.read_version(printed) == version

    def test_no_version_is_an_error(self):
        with pytest.raises(EnvironmentUnusable, match="printed no version: Error: not installed"):
            INSTALLED.read_version("Error: not installed\n")

    def test_old_versions_are_refused(self):
        with pytest.raises(EnvironmentUnusable, match=r"2020\.5\.1\.85 is too old.*2021\.4"):
            INSTALLED.require_version("2020.5.1.85")
        for version in ("2021.4.1", "2025.3.2.0", "2025.10.1"):
            INSTALLED.require_version(version)


def options(window=CAPTURE_PROGRAM, folder=Path("/out")):
    """Arguments for nsys that record a program."""
    return list(Nsys(Path("nsys"), window).profile_command(["./program", "4096"], folder).argv[1:])


class TestCommand:
    def test_a_small_trace_of_the_whole_program(self):
        assert options() == [
            *("profile", "--trace=cuda,nvtx", "--sample=none", "--cpuctxsw=none"),
            *("--backtrace=none", "--cuda-graph-trace=node", "--force-overwrite=true"),
            *("-o", "/out/private/report", "./program", "4096"),
        ]

    @pytest.mark.parametrize(
        ("window", "arguments"),
        [
            ("steps", ["--capture-range=nvtx", "--nvtx-capture=steps"]),
            (
                "steps@profiler",
                ["--capture-range=nvtx", "--nvtx-capture=steps@profiler"],
            ),
            (CAPTURE_VISITS, ["--capture-range=cudaProfilerApi"]),
        ],
    )
    def test_windows_end_the_recording_and_not_the_program(self, window, arguments):
        got = [argument for argument in options(window) if "capture" in argument]
        assert got == [*arguments, "--capture-range-end=stop"]

    def test_unregistered_names_are_compared_too(self):
        nsys, folder = Path("/opt/nsys"), Path("/out")
        env = Nsys(nsys, "steps").profile_command(["app"], folder).env
        assert env == {"NSYS_NVTX_PROFILER_REGISTER_ONLY": "0"}
        assert Nsys(nsys, CAPTURE_VISITS).profile_command(["app"], folder).env == {}

    def test_percent_signs_of_a_folder_are_no_placeholders(self):
        arguments = options(folder=Path("/out/50%host"))
        assert arguments[arguments.index("-o") + 1] == "/out/50%%host/private/report"


class TestCollector:
    def test_is_a_collector(self):
        collector = Nsys(Path("/opt/nsys"))
        assert (collector.name, collector.wraps_target) == ("nsys", True)

    def test_session_runs_the_runner(self, tmp_path):
        got = Nsys(Path("/opt/nsys"), python="py").session_command(Path("j.json"), tmp_path, ["m"])
        assert got.argv[:2] == ("/opt/nsys", "profile")
        assert got.argv[-4:] == ("py", "-P", str(RUNNER), "j.json")
        assert got.files == {"report": tmp_path / REPORT}
        assert (tmp_path / REPORT).parent == tmp_path / "private"
        assert got.argv[got.argv.index("-o") + 1] + ".nsys-rep" == str(tmp_path / REPORT)

    def test_export(self, tmp_path):
        got = convert_command(Path("/opt/nsys"), tmp_path / REPORT, tmp_path / EXPORT)
        assert got.argv == (
            *("/opt/nsys", "export", "--type=sqlite", "--force-overwrite=true"),
            *("-o", str(tmp_path / EXPORT), str(tmp_path / REPORT)),
        )
        assert got.files == {"export": tmp_path / EXPORT}

    def test_nothing_to_recover_and_no_fault(self, tmp_path):
        nsys = Nsys(Path("/opt/nsys"))
        assert nsys.recover_command(tmp_path) is None
        assert nsys.cell_fault(tmp_path) is None


class TestDiagnosis:
    def test_importer_that_does_not_start(self):
        found = diagnose(NO_IMPORTER)
        assert "could not turn its recording (report.qdstrm) into a report" in found.message
        assert "libdw1" in found.remedy

    def test_missing_library_names_its_package(self):
        found = missing_library(NO_LIBDW)
        assert "libdw.so.1" in found.message
        assert "apt-get install libdw1" in found.remedy
        assert (
            "apt-file search libodd.so.3"
            in missing_library(NO_LIBDW.replace("libdw.so.1", "libodd.so.3")).remedy
        )
        assert diagnose(NO_LIBDW + NO_IMPORTER).message == found.message
        assert missing_library("all is well") is None

    def test_unknown_option_means_an_old_release(self):
        found = diagnose("unrecognised option '--cuda-graph-trace=node'\n\nusage: nsys profile")
        assert "does not know an option" in found.message

    def test_a_raw_recording_without_a_report_is_told_even_without_words(self, tmp_path):
        leave(tmp_path / RAW)
        assert "importer" in Nsys(Path("/opt/nsys")).diagnose(tmp_path, 0).message

    def test_where_there_is_a_report_the_program_may_print_what_it_likes(self, tmp_path):
        (tmp_path / STDOUT).write_text(NO_IMPORTER)
        nsys = Nsys(Path("/opt/nsys"))
        assert nsys.diagnose(tmp_path, 0) is not None
        leave(tmp_path / REPORT)
        assert nsys.diagnose(tmp_path, 0) is None

    def test_what_the_runner_lacks_is_told_too(self, tmp_path):
        leave(tmp_path / REPORT)
        (tmp_path / STDERR).write_text("ModuleNotFoundError: No module named 'torch'\n")
        assert "torch" in Nsys(Path("/opt/nsys")).diagnose(tmp_path, 1).message
        assert Nsys(Path("/opt/nsys")).diagnose(tmp_path, 0) is None

    @pytest.mark.parametrize(
        ("window", "remedy"),
        [
            (CAPTURE_PROGRAM, "folder can be written to"),
            ("steps", "'steps' in the default domain"),
            ("steps@profiler", "'steps' in domain profiler"),
            (CAPTURE_VISITS, "cudaProfilerStart"),
        ],
    )
    def test_no_report(self, tmp_path, window, remedy):
        nsys = Nsys(Path("/opt/nsys"), window)
        assert remedy in nsys.nothing_seen(tmp_path).remedy
        leave(tmp_path / REPORT)
        assert "nothing that the GPU did" in nsys.nothing_seen(tmp_path).message

    def test_failed_export_quotes_nsys(self, tmp_path):
        failed = partial(convert_failed, tmp_path / EXPORT, "report.nsys-rep")
        found = failed("Processing...\nFailed to open the report\n")
        assert "Failed to open the report" in found.message
        leave(tmp_path / EXPORT)
        assert failed("") is None
