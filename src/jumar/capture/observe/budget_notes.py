"""Estimates what a step's notes take on the disk, and makes them fit the budget."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import torch

from jumar.base.text import size_text
from jumar.capture.notes.calls import Call, Seen
from jumar.capture.notes.clock import RunClock
from jumar.capture.plans.budget import LEFT_OUT, Budget, Stage
from jumar.capture.probes import Probe

ROW_BYTES = 24.0
TENSOR_BYTES = 9.0
"""A row and a tensor of it in a compressed step file of a GPT with statistics (measured: 17 and 6; rounded up)."""
SKETCH_BYTES = 260.0
FILE_BYTES = 24_000
"""What a step file takes whatever is in it: the description of its columns."""
LINK_BYTES = 600
"""What HDF5 takes for one name of an array, its groups included (measured: 380 in a large step, 560 in a small one)."""
MARGIN = 1.1
"""Estimates are raised by this until the first file says how far off they are, and after it."""


class Fitting:
    """Makes the notes of a step fit into what a budget allows, and learns from the files what notes take."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._scale = 1.0
        self.num_dropped = 0
        """Steps that lack some of their whole tensors."""
        self._estimated = 0.0

    def fit(self, step: int, calls: Sequence[Call]) -> tuple[Sequence[Call], list[str]]:
        """Return the calls that are kept of a step, none when nothing fits, and what was left out, a sentence each.

        The notes of the tensors are changed in place.
        """
        budget = self._budget
        told: list[str] = []
        stage = budget.stage
        calls = self._strip(calls, stage)
        while (allowance := budget.allowance) is not None and self._rows_bytes(calls) > allowance:
            stage = budget.next_stage(stage)
            calls = self._strip(calls, stage)
            if stage == Stage.STEPS:
                break
        if stage > budget.stage:
            budget.leave_out(stage, step)
        told += [LEFT_OUT[passed] for passed in budget.since if passed <= stage]
        self._estimated = self._rows_bytes(calls)
        if allowance is not None:
            dropped = _drop_arrays(calls, min(allowance - self._estimated, budget.tensor_allowance or 0))
            if dropped:
                self.num_dropped += 1
                told.append(dropped)
        return calls, told

    def learn(self, rows_file_bytes: int) -> None:
        """Compare the last estimate with the file it was about."""
        if self._estimated > FILE_BYTES:
            self._scale = max(0.2, self._scale * rows_file_bytes / self._estimated)

    def _rows_bytes(self, calls: Sequence[Call]) -> float:
        if not calls:
            return 0.0
        num_tensors = num_sketches = 0
        for call in calls:
            for side in (call.inputs, call.outputs):
                num_tensors += len(side) // 2
                num_sketches += sum(seen.sketch is not None for seen in side[1::2])
        size = len(calls) * ROW_BYTES + num_tensors * TENSOR_BYTES + num_sketches * SKETCH_BYTES + FILE_BYTES
        return size * self._scale * MARGIN

    def _strip(self, calls: Sequence[Call], stage: Stage) -> Sequence[Call]:
        """Leave out of the notes what `stage` says."""
        if stage >= Stage.TENSORS:
            wanted = {id(seen) for call in calls if call.wanted for seen in _seen(call)}
            for seen in _all_seen(calls):
                if id(seen) not in wanted:
                    seen.array = None
        if stage >= Stage.SKETCHES:
            for seen in _all_seen(calls):
                seen.sketch, seen.hash = None, ""
        if stage >= Stage.REPEATS:
            first = {id(seen) for call in calls if not call.occurrence or call.kind != "op" for seen in _seen(call)}
            for seen in _all_seen(calls):
                if id(seen) not in first:
                    seen.statistics = None
        if stage >= Stage.VIEWS:
            calls = [call for call in calls if not call.site.is_view]
        if stage >= Stage.OPERATORS:
            calls = [call for call in calls if call.kind != "op"]
        return [] if stage >= Stage.STEPS else calls


def _seen(call: Call) -> Iterator[Seen]:
    yield from call.inputs[1::2]
    yield from call.outputs[1::2]


def _all_seen(calls: Iterable[Call]) -> Iterator[Seen]:
    for call in calls:
        yield from _seen(call)


def _drop_arrays(calls: Sequence[Call], room: float) -> str:
    """Keep the arrays of rows that were asked for, then of others from the first row on, as long as they fit."""
    left = room
    kept: set[int] = set()
    dropped: dict[int, int] = {}
    dropped_wanted = 0
    for call in sorted(calls, key=lambda call: not call.wanted):
        for seen in _seen(call):
            array = seen.array
            if array is None:
                continue
            left -= LINK_BYTES
            if id(array) in kept:
                continue
            if array.nbytes <= left:
                kept.add(id(array))
                left -= array.nbytes
            else:
                dropped[id(array)] = array.nbytes
                dropped_wanted += call.wanted
                seen.array = None
    if not dropped:
        return ""
    asked = f", {dropped_wanted} of them of rows that were asked for" if dropped_wanted else ""
    return f"{len(dropped)} whole tensors, {size_text(sum(dropped.values()))}{asked}"


class CappedTensors(Probe):
    """Copies whole tensors as long as they fit into what a step may take. Tensors that do not fit are not copied, so
    they take no time.

    The time of a step is known when the step is over. Until then the time of the step before is used.
    """

    def __init__(self, inner: Probe, budget: Budget) -> None:
        self._inner = inner
        self._budget = budget
        self._clock: RunClock | None = None
        self._allowed_ns: float | None = None
        self._left = budget.tensor_allowance
        self.num_skipped = 0

    def on_tensor(self, seen: Seen, tensor: torch.Tensor) -> None:
        """Copy the tensor when there is room and time for it."""
        if self._clock is not None and self._allowed_ns is not None and self._clock.own > self._allowed_ns:
            self.num_skipped += 1
            return
        if self._left is not None:
            size = tensor.numel() * tensor.element_size()
            if size > self._left:
                self.num_skipped += 1
                return
            self._left -= size
        self._inner.on_tensor(seen, tensor)

    def on_step_end(self, calls: Sequence[Call]) -> None:
        """Finish the step."""
        self._inner.on_step_end(calls)

    def begin_step(self, clock: RunClock, run_s: float) -> None:
        """Take the allowance of the step that begins, the one before it having run for `run_s`."""
        self._left, self.num_skipped = self._budget.tensor_allowance, 0
        allowed_s = self._budget.allowed_s(run_s)
        self._clock, self._allowed_ns = clock, None if allowed_s is None else clock.own + allowed_s * 1e9
