"""The noise floor: by how much correct executions of one calculation differ, measured or estimated.

Measured: the reference is run again under other conditions (threads, kernels, inputs moved by one unit in
the last place), and every operator's difference from the first run is noted. Estimated: the error model of
`tolerance` divided by `MULTIPLES`. Either way a difference is an error from `MULTIPLES` times the floor.
docs/noise-floor.md has the calibration.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from jumar.accuracy.calls import Call
from jumar.accuracy.results import OperatorDiff
from jumar.accuracy.tolerance import epsilon

MULTIPLES = 8.0
"""Multiples of the noise floor from which a difference is an error."""

NARROWEST = 8.0
"""By how much a measured floor may narrow what the error model takes for explained: which of several inputs an error
came by is not measured, and another device's noise need not come by the same."""

FURTHEST = 16.0
"""Inputs that differ by more than this many times what they did when the floor was measured: the floor does not
say what becomes of such a difference (a network is linear only for small ones), the error model does."""


@dataclass(slots=True)
class Measured:
    """The noise of one output of one call: relative errors, the greatest of all floor recordings."""

    error: float = 0.0
    inherited: float = 0.0
    """Of the inputs."""


@dataclass(slots=True)
class NoiseFloor:
    """The floor of a reference, by its calls."""

    outputs: dict[tuple[int, int, int, str], Measured] = field(default_factory=dict)
    """By step, rank, position in the step, name of the output."""
    own: dict[tuple[str, str], float] = field(default_factory=lambda: defaultdict(float))
    """By operator and dtype: the greatest error of a call whose inputs were equal."""
    growth: dict[tuple[str, str, int], float] = field(default_factory=lambda: defaultdict(float))
    """By operator, dtype and step: the greatest growth of an error from the inputs to an output."""

    def add(self, diffs: Iterable[OperatorDiff]) -> None:
        """Take in how the calls of a floor recording differ from the reference's."""
        for diff in diffs:
            if diff.reference_seq is None or diff.kind not in {"op", "module"}:
                continue
            for output in diff.outputs:
                if output.error is None or output.error == float("inf"):
                    continue
                measured = self.outputs.setdefault((diff.step, diff.rank, diff.reference_seq, output.name), Measured())
                measured.error = max(measured.error, output.error)
                measured.inherited = max(measured.inherited, diff.inherited or 0.0)
                operator = diff.reference_name, output.dtype
                if not diff.inherited:
                    self.own[operator] = max(self.own[operator], output.error)
                else:
                    kind = (*operator, diff.step)
                    self.growth[kind] = max(self.growth[kind], output.error / diff.inherited)

    def tolerance(
        self, call: Call, name: str, target_dtype: str, model: tuple[float, float], inherited: float
    ) -> tuple[float, float] | None:
        """Return (own rounding, what the inputs explain) as relative errors; None where nothing was measured.

        `model` holds the same two figures of the error model, `inherited` the relative error of the inputs. Of a
        target in a coarser dtype the reference's floor says nothing.
        """
        row, output = call.row, call.outputs[name]
        measured = self.outputs.get((row.step, row.rank, row.seq, name))
        if measured is None or epsilon(target_dtype) > epsilon(output.dtype):
            return None
        own = max(model[0], MULTIPLES * self.own.get((row.name, output.dtype), 0.0))
        if not 0.0 < inherited <= FURTHEST * measured.inherited:
            return own, model[1]
        growth = self.growth.get((row.name, output.dtype, row.step), 0.0)
        return own, max(MULTIPLES * max(measured.error, growth * inherited), model[1] / NARROWEST)
