"""Sums that the two runs group in another order: differences that are gone where the sum is complete.

One device adds (a + b) + c, the other (a + c) + b; the calls that pair up read other terms, though every call
before them agrees. Or states that nothing reads are stacked in another order. Such a difference is only a
suspicion: it counts when a call that depends on it differs, and is not put right by the next one, or when what was
read is a parameter that differs still when the step is over.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from jumar.accuracy.calls import Call
from jumar.accuracy.canonical import EXACT
from jumar.accuracy.results import OperatorDiff

HEALED = 8.0
"""Multiples of its own rounding within which a result that read a suspicious value agrees after all."""


@dataclass(slots=True)
class Suspicion:
    """A divergence that is not certain yet, and what depends on it."""

    diff: OperatorDiff
    num_leaves: int
    """Leaves that had been seen to differ when it arose."""
    read: int
    """Storage of the reference that was read and differs; 0 where it is not known."""
    random: OperatorDiff | None = None
    """Operator that had drawn other random numbers by then."""
    needs_reader: bool = False
    """Nothing is calculated in the call itself: it counts when one that calculates reads its result and differs."""
    open: set[int] = field(default_factory=set)
    """Storages of the reference that depend on it and of which no reader has agreed."""
    _touched: set[int] = field(default_factory=set)
    _has_spread: bool = False
    _is_kept: bool = False

    def begin(self, call: Call) -> None:
        """Take in the outputs of the call that is suspected."""
        self._taint(call)

    def see(self, call: Call, diff: OperatorDiff) -> None:
        """Take in a later call of the reference with its comparison."""
        if call.row.kind == "parameter":
            is_it = any(tensor.storage == self.read for tensor in call.outputs.values())
            self._is_kept |= bool(self.read) and is_it and diff.status == "diverge"
        read = {tensor.storage for tensor in call.inputs.values()} & self._touched
        if not read:
            return
        if diff.error is not None and diff.rounding is not None and diff.error <= HEALED * diff.rounding:
            self.open -= read
            self._touched -= {tensor.storage for tensor in call.outputs.values()}
        else:
            self._has_spread |= call.operator not in EXACT
            self.open -= read
            self._taint(call)

    def hand_on(self, call: Call) -> None:
        """Take in a call that only the reference has: what it makes of a suspicious value is no less so."""
        read = {tensor.storage for tensor in call.inputs.values()} & self._touched
        if read:
            self.open -= read
            self._taint(call)

    def _taint(self, call: Call) -> None:
        storages = {tensor.storage for tensor in call.outputs.values()}
        self._touched |= storages
        self.open |= storages

    @property
    def is_confirmed(self) -> bool:
        """Whether it, or something that depends on it, is left now that the step is over."""
        return self._is_kept or (bool(self.open) and (self._has_spread or not self.needs_reader))
