"""The result of a replay: frozen values that turn into JSON. Imports no torch."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from jumar.comparison.model.results import plain
from jumar.comparison.replay.rebuilt.refusal import Cause
from jumar.recording import CallRow

On = Literal["cpu64", "cpu", "npu", "cuda"]
"""Where operators are re-executed: `cpu64` in float64 on the CPU only; else also on this device in their own dtypes."""

Verdict = Literal["own fault", "other arguments", "inherited", "agrees", "not replayable"]
"""`own fault`: the recorded output is off by more than rounding explains, with the inputs it had; `inherited`: its
own error is rounding, and what it read already differed from the reference's; `other arguments`: so it does because
the two runs called it with other scalars."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputError:
    """One output against the float64 execution from the same inputs.

    `error` is the greater of the L2 and the greatest elementwise distance, each relative to the scale of the
    calculation (as `jumar compare` judges); inf when NaN or Inf elements differ. Of integer and bool outputs it
    is the share of elements that differ.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    error: float
    tolerance: float
    ulps: float
    """`error` in units in the last place of `dtype` (machine epsilons); 0 for integers."""
    max_ulps: float
    """Greatest difference of an element in units in the last place of that element."""
    max_abs: float
    """Greatest absolute difference of an element."""
    index: tuple[int, ...] = ()
    """Where it is."""
    recorded: float = 0.0
    """The recorded element there (of complex outputs the part that differs)."""
    exact: float = 0.0
    """The float64 element there."""
    num_different: int = 0
    """Elements that are not the float64 result rounded to `dtype`."""
    num_elements: int = 0
    num_nonfinite_differs: int = 0
    """Elements that are NaN or Inf on one side only, or another of these."""
    saturated: bool = False
    """Finite where the exact result lies beyond the range of `dtype`."""
    bit_identical: bool = False
    """Equal to the other side bit for bit (NaN equals NaN)."""

    @property
    def excess(self) -> float:
        """The error in multiples of the tolerance; inf for any error where none is allowed."""
        if self.error == 0:
            return 0.0
        return self.error / self.tolerance if self.tolerance > 0 else math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnError:
    """How far the outputs of one call are from the float64 execution; the worst output first decides."""

    outputs: tuple[OutputError, ...] = ()

    @property
    def worst(self) -> OutputError | None:
        """The output that exceeds its tolerance by most."""
        return max(self.outputs, key=lambda output: (output.excess, output.error), default=None)

    @property
    def bit_identical(self) -> bool:
        """Whether every output is equal to the other side bit for bit."""
        return all(output.bit_identical for output in self.outputs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """One recorded operator, re-executed.

    `own` is the recorded output against float64 from the recorded inputs, `reference_own` the same of the
    reference's recording, `on_error` the output on the device of the replay against float64, `on_difference`
    that output against the recorded one. Fields that need what is not there are None.
    """

    row: CallRow
    verdict: Verdict
    on: On = "cpu64"
    own: OwnError | None = None
    reference_row: CallRow | None = None
    reference_own: OwnError | None = None
    inherited: float | None = None
    """float64 from the target's inputs against float64 from the reference's, both with the target's arguments;
    relative like `OutputError.error`."""
    by_arguments: float | None = None
    """float64 with the target's scalar arguments against the reference's, both from the reference's inputs."""
    arguments: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)
    """Scalar arguments that differ: reference, target."""
    on_error: OwnError | None = None
    on_difference: OwnError | None = None
    precision: str = ""
    """What the truth was calculated in: `float64`, or the operator's own dtype where it has no float64 kernel."""
    note: str = ""
    cause: Cause | None = None
    """Why it is not replayable, as one word."""

    @property
    def own_error(self) -> float | None:
        """Error of the recorded output against float64 from the recorded inputs."""
        return self.own.worst.error if self.own is not None and self.own.worst is not None else None

    @property
    def own_ulps(self) -> float | None:
        """The same in units in the last place."""
        return self.own.worst.ulps if self.own is not None and self.own.worst is not None else None

    @property
    def tolerance(self) -> float | None:
        """What rounding explains of it."""
        return self.own.worst.tolerance if self.own is not None and self.own.worst is not None else None

    @property
    def reference_error(self) -> float | None:
        """Error of the reference's recorded output against float64 from the reference's inputs."""
        own = self.reference_own
        return own.worst.error if own is not None and own.worst is not None else None

    @property
    def ratio(self) -> float | None:
        """Own error over the reference's own error; None when either is unknown, inf when the reference has none."""
        own, of_reference = self.own_error, self.reference_error
        if own is None or of_reference is None:
            return None
        return own / of_reference if of_reference > 0 else (math.inf if own > 0 else 1.0)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values: the row's identity, the three numbers, the outputs."""
        row = self.row
        data: dict[str, Any] = {
            "step": row.step,
            "rank": row.rank,
            "seq": row.seq,
            "key": row.key,
            "name": row.name,
            "module_path": row.module_path,
            "phase": row.phase,
            "source": row.source,
            "own_error": self.own_error,
            "own_ulps": self.own_ulps,
            "tolerance": self.tolerance,
            "reference_error": self.reference_error,
            "ratio": self.ratio,
            "reference_key": self.reference_row.key if self.reference_row is not None else None,
        }
        left_out = {"row", "reference_row"}
        data |= {item.name: getattr(self, item.name) for item in fields(self) if item.name not in left_out}
        result: dict[str, Any] = plain(data)
        return result
