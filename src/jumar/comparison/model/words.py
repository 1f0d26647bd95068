"""Words and numbers in findings."""

from __future__ import annotations

import math
from typing import Protocol

from jumar.base.findings import Json, Location
from jumar.comparison.model.results import OperatorDiff, TensorDiff
from jumar.recording.schema import split_source


def number(value: float | None, digits: int = 3) -> str:
    """Return a short form: `3.1e-05`, `0.126`, `inf`, `not known`."""
    if value is None:
        return "not known"
    return f"{value:.{digits}g}"


def multiple(value: float | None) -> str:
    """Return a multiple of a tolerance: `520 times`, or words for one of a tolerance of zero."""
    if value is None:
        return "not known"
    if math.isinf(value):
        return "any difference counts, the tolerance is 0"
    return f"{value:,.0f} times" if value >= 10 else f"{value:.1f} times"


def times_noise(diff: OperatorDiff) -> str:
    """Return how far an error is beyond noise, in multiples of the noise floor or (unknown) of the tolerance."""
    if not (diff.reference_name and diff.target_name):
        return "only one of the runs has it"
    if diff.times_floor is not None and math.isfinite(diff.times_floor):
        return f"{multiple(diff.times_floor)} the noise floor of {number(diff.floor)}"
    if diff.multiple is None or math.isinf(diff.multiple):
        return multiple(diff.multiple)
    return f"{multiple(diff.multiple)} the tolerance of {number(diff.tolerance)}"


def location(diff: OperatorDiff) -> Location:
    """Return where an operator is, in the source and in the run."""
    return located(diff, diff.name)


class Placed(Protocol):
    """What has a place in a run and in its source."""

    @property
    def source(self) -> str:
        """`model.py:41`."""

    @property
    def module_path(self) -> str:
        """Dotted path."""

    @property
    def module_type(self) -> str:
        """Class of the module."""

    @property
    def phase(self) -> str:
        """`forward`, `backward`, `optimizer`."""

    @property
    def step(self) -> int:
        """From 0."""

    @property
    def rank(self) -> int:
        """From 0."""


def located(item: Placed, operator: str) -> Location:
    """Return the place of `item`, a call of `operator`, as findings have it."""
    path, line = split_source(item.source)
    return Location(
        path=path,
        line=line,
        module_path=item.module_path,
        operator=operator,
        phase=item.phase,
        step=item.step,
        rank=item.rank,
    )


def place(item: Placed, nowhere: str = "outside any module") -> str:
    """Return `blocks.3.ln1 (LayerNorm), forward of step 0 on rank 1, model.py:41`; `nowhere` stands for no module."""
    kind = f" ({item.module_type})" if item.module_type and item.module_path else ""
    source = f", {item.source}" if item.source else ""
    rank = f" on rank {item.rank}" if item.rank else ""
    return f"{item.module_path or nowhere}{kind}, {item.phase} of step {item.step}{rank}{source}"


def told_once(message: str, headline: str) -> str:
    """Return a divergence's sentence without the place that the headline has named already."""
    lead, _, rest = message.partition(" diverges; ")
    if not rest or lead not in headline:
        return message
    is_code = "::" in rest.split(" ", 1)[0]
    return rest if is_code else rest[:1].upper() + rest[1:]


def tensor_json(diff: TensorDiff) -> dict[str, Json]:
    """Return the figures of a tensor that are known, for a finding's evidence."""
    facts: dict[str, Json] = {
        "tensor": diff.name,
        "shape": list(diff.shape),
        "dtype": diff.dtype if diff.dtype == diff.target_dtype else f"{diff.dtype} / {diff.target_dtype}",
        "evidence": diff.evidence,
    }
    for name in ("error", "cosine", "l2_relative", "l2_relative_at_least", "max_abs_at_least", "num_different"):
        value = getattr(diff, name)
        if value is not None:
            facts[name] = value if math.isfinite(value) else str(value)
    for name in ("max_abs", "max_relative"):
        spot = getattr(diff, name)
        if spot is not None:
            facts[name] = {
                "difference": spot.difference,
                "index": list(spot.index),
                "reference": spot.reference,
                "target": spot.target,
            }
    if diff.nonfinite_differs:
        facts["num_nonfinite"] = {"reference": diff.num_nonfinite, "target": diff.target_num_nonfinite}
    return facts
