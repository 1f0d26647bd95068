"""Short ways to convert a snippet of TensorFlow, and to look at what came of it."""

from __future__ import annotations

from jumar.base.findings import Finding
from jumar.convert import ConvertOptions, convert_source
from jumar.convert.model.options import Strategy, TensorFlowOptions
from jumar.convert.model.outcome import Outcome


def outcome(source: str, *, unsafe: bool = False, strategy: Strategy = "", compat: bool = False) -> Outcome:
    """What becomes of a snippet."""
    options = ConvertOptions(unsafe=unsafe, tensorflow=TensorFlowOptions(strategy=strategy, compat=compat))
    return convert_source(source, "train.py", options)


def after(source: str, *, unsafe: bool = False, strategy: Strategy = "", compat: bool = False) -> str:
    """The converted snippet; converting it once more changes nothing."""
    found = outcome(source, unsafe=unsafe, strategy=strategy, compat=compat).after.decode()
    assert outcome(found, unsafe=unsafe, strategy=strategy, compat=compat).after.decode() == found
    return found


def codes(found: Outcome) -> set[str]:
    """The rules that spoke."""
    return {finding.code for finding in found.findings}


def left(source: str) -> list[Finding]:
    """What a conversion did not change and somebody must look at."""
    found = outcome(source).findings
    return [each for each in found if not each.evidence.get("applied") and each.severity.label != "info"]
