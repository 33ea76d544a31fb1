"""Names in words: shortened ones, and what one must know to read those of variants."""

from __future__ import annotations

from profiler.findings.findings import Programs
from profiler.findings.variant_names import JOINT

LONGEST_NAME = 48
"""Characters of a name that figures have room for: as many as the longest label has."""


def shorten(name: str, longest: int = LONGEST_NAME) -> str:
    """Cut a name in its middle, so that both ends stay; a variant's label is never as long."""
    if len(name) <= longest:
        return name
    half = (longest - 1) // 2
    return f"{name[:half]}\u2026{name[-half:]}"


def shared_words(programs: Programs) -> str:
    """Sentence on what all variants share; empty where labels are not made of parameters."""
    names = programs.names
    if not names.from_parameters or not names.shared:
        return ""
    texts = ", ".join(chip.text for chip in names.shared)
    every = len(names.family) == len(programs.plan.variants)
    which = "variants" if every else "configurations"
    return f"All {len(names.family)} {which} have {texts}."


def usual_words(programs: Programs) -> str:
    """Sentence on flags that a label says only where they are off; empty without any."""
    names = programs.names
    if not names.from_parameters or not names.usual:
        return ""
    texts = ", ".join(chip.text for chip in names.usual)
    return f"On unless a name says \u201cno\u201d: {texts}."


def label_keys(programs: Programs) -> str:
    """Sentence on what the parts of labels are values of; empty where labels are no parameters."""
    names = programs.names
    usual = {chip.text for chip in names.usual}
    keys = [key for key in names.keys if key not in usual]
    if not names.from_parameters or not keys:
        return ""
    return f"Names: {JOINT.join(keys)}."


def key_to_names(programs: Programs) -> str:
    """What one must know to read the labels, in one line; empty where they are plain names."""
    sentences = (label_keys(programs), usual_words(programs), shared_words(programs))
    return " ".join(filter(None, sentences))
