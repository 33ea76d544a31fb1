"""What is private to a machine does not reach what is shared."""

import getpass
import tempfile
from pathlib import Path

import pytest

from profiler.run_folder import redact
from profiler.run_folder.redact import private_texts, without_private


@pytest.fixture
def home(tmp_path, monkeypatch):
    home = tmp_path / "home/ada"
    (home / "project").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setattr(getpass, "getuser", lambda: "runner")
    monkeypatch.setattr(tempfile, "gettempdir", lambda: "/scratch")
    monkeypatch.chdir(home / "project")
    return home


def test_folders_are_replaced_the_longest_first(home):
    run = home / "project/reports/x/1"
    private = private_texts(run)
    text = f"ncu --log-file {run}/raw/ncu.csv {home}/project/a.py {home}/b /data/runner/c"
    assert without_private(text, private) == (
        "ncu --log-file RUN/raw/ncu.csv ./a.py HOME/b /data/USER/c"
    )


def test_the_folder_of_the_profiler_is_private_wherever_one_works(home):
    program = Path(redact.__file__).parents[2] / "profiler/__main__.py"
    text = without_private(f"python -P {program}", private_texts(home / "run"))
    assert text == "python -P INSTALLED/profiler/__main__.py"


def test_only_whole_names_are_replaced(home):
    private = private_texts(home / "run")
    text = f"python -m profiler.runner {home}-of-another {home}lace"
    assert without_private(text, private) == text


def test_the_root_folder_is_not_private(home, monkeypatch):
    monkeypatch.chdir("/")
    monkeypatch.setenv("HOME", "/")
    assert without_private("/usr/bin/ncu", private_texts(home)) == "/usr/bin/ncu"


def test_a_user_without_name_or_home_is_no_error(home, monkeypatch):
    def nobody(*_):
        raise KeyError("uid not found")

    monkeypatch.setattr(getpass, "getuser", nobody)
    monkeypatch.setattr(Path, "home", lambda: (_ for _ in ()).throw(RuntimeError("no home")))
    assert without_private("/x", private_texts(home)) == "/x"
