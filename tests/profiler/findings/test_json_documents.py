"""Documents for programs: their schemas in docs, and what these refuse."""

from __future__ import annotations

import copy

import pydantic
import pytest
from recorded import RECORDINGS, findings_of_recording, summary_of

from profiler.findings.document import SummaryDocument
from profiler.findings.json_model import ABSENT, JsonObject, Number, Source


@pytest.fixture(scope="module")
def summary():
    document = summary_of(findings_of_recording(RECORDINGS / "transpose.zip"))
    SummaryDocument.model().model_validate(document)
    return document


@pytest.mark.parametrize(
    "damage",
    [
        lambda document: document.pop("answer"),
        lambda document: document.update(answers={}),
        lambda document: document.update(schema_version="one"),
        lambda document: document.update(cells={}),
        lambda document: document.update(created=None),
        lambda document: document["answer"].pop("best"),
        lambda document: document["answer"]["best"].update(wins="many"),
        lambda document: document["answer"]["best"].update(called="winner"),
        lambda document: document["answer"]["by_how_much"].pop("worst_case"),
        lambda document: document["answer"]["by_how_much"].update(best_case=None),
        lambda document: document["answer"]["why"]["account"].update(closes=None),
        lambda document: document["answer"]["why"]["account"].update(parts=[{}] * 9),
        lambda document: document["cells"][0].pop("metrics"),
        lambda document: document["cells"][0]["metrics"]["duration_ns"].update(other=1),
        lambda document: document["cells"][0]["metrics"]["duration_ns"].update(source="timer"),
    ],
)
def test_a_document_that_is_not_as_declared_is_refused(summary, damage):
    document = copy.deepcopy(summary)
    damage(document)
    with pytest.raises(pydantic.ValidationError):
        SummaryDocument.model().model_validate(document)


class PartDocument(JsonObject):
    """A part."""

    get = Source[float]()
    half: Number = get(lambda value: value / 2)
    """of the
    whole"""


class WholeDocument(JsonObject, is_open=True):
    """A whole."""

    get = Source[float | None]()
    part: PartDocument | None = get.nested(PartDocument, lambda value: value)
    spread = get.spread(PartDocument, lambda value: value, optional=True)
    again: int = get(lambda value: ABSENT if value is None else int(value), optional=True)
    others = get.further_keys(lambda _: {"more": 1})


def test_keys_stand_in_the_order_of_the_fields_and_may_be_absent():
    assert list(WholeDocument.document(3.0).items()) == [
        ("part", {"half": 1.5}),
        ("half", 1.5),
        ("again", 3),
        ("more", 1),
    ]
    assert WholeDocument.document(None) == {"part": None, "more": 1}
    schema = WholeDocument.model().model_json_schema()
    assert schema["required"] == ["part"]
    assert list(schema["properties"]) == ["part", "half", "again"]
    assert schema["$defs"]["Part"]["properties"]["half"]["description"] == "of the whole"
