"""The reference page and the JSON Schema say what the models say."""

import re
from pathlib import Path

import pydantic
import pytest
import yaml
from doc_spec import MODELS, fill_tables, schema_text

from profiler.planning.plan import make_plan
from profiler.planning.space import space_of
from profiler.planning.spec import load_spec
from profiler.run_folder.archive import open_run

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "spec.md").read_text(encoding="utf-8")
ROOT = DOCS.parent
REMEDY = "out of step: make numbers"

pytestmark = pytest.mark.skipif(
    tuple(map(int, pydantic.VERSION.split(".")[:2])) < (2, 11),
    reason="an older pydantic says the same schema in other words",
)


def test_tables_are_those_of_the_models():
    assert fill_tables(PAGE) == PAGE, REMEDY


def test_schema_file_is_that_of_the_models():
    assert (DOCS / "spec.schema.json").read_text(encoding="utf-8") == schema_text(), REMEDY


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_every_key_of_every_model_is_in_the_page(model):
    begin = PAGE.index(f"<!-- fields: {model.__name__} -->")
    section = PAGE[begin : PAGE.index("<!-- end -->", begin)]
    for name, field in model.model_fields.items():
        assert f"| `{field.alias or name}` |" in section


def test_a_field_that_the_page_lacks_is_noticed():
    assert fill_tables(PAGE.replace("| `blocks` |", "| `blobs` |")) == PAGE


def _examples():
    blocks = [part.partition("```")[0] for part in PAGE.split("```yaml\n")[1:]]
    return [block for block in blocks if isinstance(yaml.safe_load(block), dict)]


@pytest.mark.parametrize("text", _examples(), ids=lambda text: text.split("\n")[0])
def test_every_example_of_the_page_is_valid(text, tmp_path):
    path = tmp_path / "example.yaml"
    path.write_text(text, encoding="utf-8")
    assert load_spec(path).experiment.name in text


def test_the_page_has_both_kinds_of_workload_as_examples():
    assert len(_examples()) == 2


def test_the_twelve_lines_of_the_readme_are_cells_of_the_recording_that_it_names(tmp_path):
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (lines,) = re.findall(r"## Twelve lines\n\n```yaml\n(.*?)\n```", text, re.DOTALL)
    assert len(lines.splitlines()) == 12
    (tmp_path / "kernels").symlink_to(ROOT / "kernels")
    spec = tmp_path / "twelve.yaml"
    spec.write_text(lines, encoding="utf-8")
    loaded = load_spec(spec)
    cells = make_plan(loaded, space_of(loaded)).cells
    record = open_run(ROOT / "experiments/recordings/softmax.zip").record()
    assert {cell.id for cell in cells} <= record.keys.keys()
