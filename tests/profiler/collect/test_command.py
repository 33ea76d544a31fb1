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
