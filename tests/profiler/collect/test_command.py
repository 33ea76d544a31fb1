"""Programs of external commands."""

import pytest

from profiler.collect.programs import find_program
from profiler.errors import SpecError


def test_programs_are_found_beside_the_spec_or_on_path(tmp_path):
    program = tmp_path / "sgemm"
    program.write_text("#!/bin/sh\n")
    with pytest.raises(SpecError, match="no program"):
        find_program(["./sgemm"], tmp_path)
    program.chmod(0o755)
    assert find_program(["./sgemm", "1"], tmp_path) == tmp_path / "./sgemm"
    assert find_program(["sh"], tmp_path).name == "sh"
    with pytest.raises(SpecError, match="on PATH"):
        find_program(["no-such-program"], tmp_path)


@pytest.mark.parametrize(
    ("first_line", "message", "remedy"),
    [
        (b"#!/bin/sh\r\n", "ends in a carriage return", "sed -i 's/\\r$//' './a script'"),
        (b"#!/usr/bin/env sh\r\n", "ends in a carriage return", "LF"),
        (b"#! /no/such/python3 -u\n", "names /no/such/python3, which is not there", "first line"),
    ],
)
def test_a_script_whose_interpreter_is_not_there_says_why(tmp_path, first_line, message, remedy):
    """The system says `No such file or directory`, and means the interpreter."""
    program = tmp_path / "a script"
    program.write_bytes(first_line + b"true\r\n")
    program.chmod(0o755)
    with pytest.raises(SpecError) as raised:
        find_program(["./a script"], tmp_path)
    assert message in raised.value.message
    assert remedy in raised.value.remedy


@pytest.mark.parametrize("content", [b"", b"#!\n", b"\x7fELF\r", b"true\r\n", b"#!/bin/sh"])
def test_any_other_program_is_left_to_the_system(tmp_path, content):
    program = tmp_path / "program"
    program.write_bytes(content)
    program.chmod(0o755)
    assert find_program(["./program"], tmp_path) == tmp_path / "./program"
