"""What is noted of the step under way, and the probes that note it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from jumar.capture.autocast import AutocastWatch
from jumar.capture.calls import Call, Named, Seen
from jumar.capture.clock import RunClock
from jumar.capture.memory import is_wrapper
from jumar.capture.modules import ModuleWatch
from jumar.capture.probes import Probe, StatsProbe
from jumar.capture.selection import Selection, keep
from jumar.capture.storages import StorageTable
from jumar.recording import Kind, Phase

Tensor = torch.Tensor


class Notebook:
    """The calls of one step, and how tensors are looked at. Emptied by `begin_step`.

    `is_open` says whether the step under way is recorded; `on_failure` is told what a probe raised.
    `sees_writes` is False when operators are not observed: what was seen of a tensor may then be
    out of date at the next call.
    """

    def __init__(self, probes: Sequence[Probe], *, sees_writes: bool, on_failure: Callable[[Exception], None]) -> None:
        self.probes = list(probes)
        self.watch = ModuleWatch()
        self.clock = RunClock()
        self.autocast = AutocastWatch()
        self.storages = StorageTable()
        self.is_open = False
        self.selection: Selection | None = None
        """Rows whose whole tensors are kept whatever the probes take."""
        self.skips_views = False
        """Whether operators that only make views are left out (the budget asked for it)."""
        self.sees_writes = sees_writes
        self._on_failure = on_failure
        self._loss_stats = StatsProbe()
        self.begin_step()

    def begin_step(self) -> None:
        """Forget the step that was, and begin the next one now."""
        self.calls: list[Call] = []
        self.unfinished: dict[int, Call] = {}
        """Backward calls of modules that wait for more gradients, by identity."""
        self._occurrences: dict[tuple[str, str, str, str], int] = {}
        self.storages.clear()
        self.step_start = self.clock.now()

    def end_step(self) -> Sequence[Call]:
        """Let the probes finish and return the calls of the step."""
        self.calls += self.unfinished.values()
        for probe in (*self.probes, self._loss_stats):
            probe.on_step_end(self.calls)
        return self.calls

    @property
    def takes_notes(self) -> bool:
        """Whether what runs now on this thread is part of a recorded step."""
        return self.is_open and not self.watch.busy

    def now_us(self) -> float:
        """Return the time since the step began."""
        return (self.clock.now() - self.step_start) / 1000

    @contextmanager
    def own_work(self) -> Iterator[None]:
        """Nothing that runs inside is part of the run: not recorded, not timed, not differentiated.

        Should it fail, the recording ends and the run goes on.
        """
        watch = self.watch
        was_busy, watch.busy = watch.busy, True
        self.clock.pause()
        try:
            with torch.no_grad():
                yield
        except Exception as error:  # noqa: BLE001 - whatever goes wrong in the observer must not end the run
            self._on_failure(error)
        finally:
            self.clock.resume()
            watch.busy = was_busy

    def guarded(self, work: Callable[..., Call | None], *args: Any) -> Call | None:
        """Do a piece of the observer's work as `own_work` does it, for callers that keep the time themselves."""
        try:
            return work(*args)
        except Exception as error:  # noqa: BLE001 - as in own_work
            self._on_failure(error)
            return None

    # -- calls --------------------------------------------------------------------------------

    def new_call(self, kind: Kind, phase: Phase, path: str, module_type: str, name: str) -> Call:
        """Return the note of a call of a module, or of a loss, that begins now."""
        call = Call(kind, phase, path, module_type, name)
        call.occurrence = self.next_occurrence(call)
        call.autocast = self.autocast.dtype
        for probe in self.probes:
            probe.on_call(call, None, (), {})
        if not self.sees_writes:
            self.storages.forget_values()
        return call

    def next_occurrence(self, call: Call) -> int:
        """Return which call of its kind, phase, path and name this is in the step."""
        key = (call.kind, call.phase, call.module_path, call.name)
        number = self._occurrences.get(key, 0)
        self._occurrences[key] = number + 1
        if self.selection is not None:
            call.wanted = self.selection.wants(*key, number)
        return number

    def keep(self, call: Call, named: Named, values: Any) -> None:
        """Keep the whole tensors of one side of a row that was asked for; `values` hold them in the order of names."""
        if call.wanted:
            keep(named, values)

    # -- tensors ------------------------------------------------------------------------------

    def see(self, tensor: Tensor) -> Seen:
        """Return the note of a tensor as it is now."""
        seen, is_new = self.storages.find(tensor)
        if is_new and not is_wrapper(tensor):
            for probe in self.probes:
                probe.on_tensor(seen, tensor)
        return seen

    def see_loss(self, loss: Tensor) -> Seen:
        """Return the note of a loss, whose statistics are taken with any values."""
        seen = self.see(loss.detach())
        if seen.statistics is None:
            self._loss_stats.on_tensor(seen, loss)
        return seen

    def see_list(self, found: Named, name: str, values: Sequence[Any]) -> None:
        """Add the tensors among `values`, the members of the argument or result `name`, to `found`."""
        for position, value in enumerate(values):
            if isinstance(value, Tensor):
                found += (f"{name}.{position}", self.see(value))

    def see_all(self, tensors: Iterable[tuple[str, Tensor]]) -> Named:
        """Return the notes of named tensors."""
        found: Named = []
        for name, tensor in tensors:
            found += (name, self.see(tensor))
        return found
