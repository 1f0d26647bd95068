"""Which call of one side reads what which other call of that side has written.

Values are numbers: the index of the call that wrote it, or a negative number for memory that no call
of the step has written (a leaf). Views, casts and copies hand a value on, so that a device that
inserts one changes no value.
"""

from __future__ import annotations

from collections.abc import Sequence

from jumar.accuracy.calls import Call
from jumar.accuracy.canonical import OVERWRITING, TRANSPORT, UNINITIALISED, is_inplace
from jumar.recording.schema import TensorRow

Value = int


class Dataflow:
    """Values that the calls of one side read and write. Without storage numbers (`known` is False) there are none."""

    def __init__(self, calls: Sequence[Call]) -> None:
        self.reads: list[tuple[tuple[str, Value], ...]] = []
        """For each call the names of its inputs and their values."""
        self.readers: list[list[int]] = [[] for _ in calls]
        """For each call the calls that read what it wrote."""
        self.leaf_readers: dict[Value, list[int]] = {}
        self.known = any(tensor.storage for call in calls for tensor in call.inputs.values())
        self._now: dict[int, Value] = {}
        for index, call in enumerate(calls):
            self.reads.append(tuple(self._read(call)) if self.known else ())
            if self.known:
                self._write(index, call)

    def _read(self, call: Call) -> list[tuple[str, Value]]:
        overwritten = call.operator in OVERWRITING and is_inplace(call.row.name)
        return [
            (name, self._now.get(tensor.storage, -tensor.storage))
            for name, tensor in call.inputs.items()
            if tensor.storage and not (overwritten and name == "input.0")
        ]

    def _write(self, index: int, call: Call) -> None:
        reads = self.reads[index]
        if call.operator in TRANSPORT:
            value = reads[0][1] if reads else index
        else:
            value = index
            for _, read in reads:
                (self.readers[read] if read >= 0 else self.leaf_readers.setdefault(read, [])).append(index)
        if call.operator not in UNINITIALISED:
            for tensor in writes(call):
                self._now[tensor.storage] = value


def writes(call: Call) -> list[TensorRow]:
    """Return the tensors a call writes: its outputs, or its first argument when it works in place."""
    if call.outputs:
        return list(call.outputs.values())
    return [call.inputs["input.0"]] if is_inplace(call.row.name) and "input.0" in call.inputs else []
