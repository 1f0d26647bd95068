"""What is noted of the step under way, and the probes that note it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any

import torch

from jumar.capture.notes.attribution import Origin
from jumar.capture.notes.autocast import AutocastWatch
from jumar.capture.notes.calls import Call, Named, Seen, Site, Tally
from jumar.capture.notes.clock import RunClock
from jumar.capture.notes.memory import is_wrapper, local_part
from jumar.capture.notes.operators import OperatorInfo
from jumar.capture.notes.randomness import step_digests
from jumar.capture.notes.storages import StorageTable
from jumar.capture.plans.selection import Selection
from jumar.capture.probes import Probe, StatsProbe
from jumar.capture.probes.tensors import keep
from jumar.capture.watch.stack import ModuleWatch
from jumar.recording import Kind, Phase, StepInfo

if TYPE_CHECKING:
    from jumar.capture.fast.watch import FastStorages

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
        self.storages: StorageTable | FastStorages = StorageTable()
        self._look: Callable[..., Seen] | None = None
        self.fast: FastStorages | None = None
        """The storages, where C++ follows them."""
        self.is_open = False
        self.selection: Selection | None = None
        """Rows whose whole tensors are kept whatever the probes take."""
        self.skips_views = False
        """Whether operators that only make views are left out (the budget asked for it)."""
        self.on_failure = on_failure
        self.info = StepInfo()
        """What is known of the step under way as a whole; who learns more replaces it."""
        self.sees_writes = sees_writes
        self._loss_stats = StatsProbe()
        self._tallies: dict[tuple[str, str, str, str], Tally] = {}
        self.begin_step()

    def begin_step(self) -> None:
        """Forget the last step, except what `storages.carry` was told, and begin the next one now."""
        self.calls: list[Call] = []
        self.unfinished: dict[int, Call] = {}
        """Backward calls of modules that wait for more gradients, by identity."""
        self.call_probes = [probe for probe in self.probes if type(probe).on_call is not Probe.on_call]
        self.tensor_probes = [probe for probe in self.probes if type(probe).on_tensor is not Probe.on_tensor]
        for tally in self._tallies.values():
            tally.num_calls = 0
        self.storages.clear(carries=self.is_open and self.sees_writes)
        self.info = StepInfo()
        if self.is_open:
            with self.own_work():
                self.info = StepInfo(rng=step_digests())
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

    def own_work(self) -> AbstractContextManager[None]:
        """What runs inside is no part of the run: it is not recorded, timed or differentiated. If it fails, the
        recording ends and the run goes on.
        """
        return _OwnWork(self)

    # -- calls --------------------------------------------------------------------------------

    def begin_operator(self, origin: Origin, phase: Phase, info: OperatorInfo, source: str) -> Call:
        """Return the note of an operator that is about to run in the module `origin`."""
        return self._begin(self.site_of(origin, phase, info), source)

    def site_of(self, origin: Origin, phase: Phase, info: OperatorInfo) -> Site:
        """Return where calls of an operator in the module `origin` are counted."""
        site: Site | None = origin.sites.get((info, phase))
        if site is None:
            site = self.site_at("op", phase, origin.module_path, origin.module_type, info.name)
            site.draws, site.is_view = info.draws, info.is_view
            origin.sites[info, phase] = site
        return site

    def new_call(self, kind: Kind, phase: Phase, path: str, module_type: str, name: str) -> Call:
        """Return the note of a call of a module, an optimizer or a loss, that begins now."""
        return self.call_at(self.site_at(kind, phase, path, module_type, name))

    def call_at(self, site: Site) -> Call:
        """Return the note of a call at `site` that begins now."""
        call = self._begin(site, "")
        for probe in self.call_probes:
            probe.on_call(call, None, (), {})
        if not self.sees_writes:
            self.storages.forget_values()
        return call

    def begin_row(self, kind: Kind, phase: Phase, path: str, module_type: str, name: str) -> Call:
        """Return a row that is no call of the program's: it has no line, and no probe is asked."""
        return self._begin(self.site_at(kind, phase, path, module_type, name), "")

    def _begin(self, site: Site, source: str) -> Call:
        tally = site.tally
        occurrence = tally.num_calls
        tally.num_calls = occurrence + 1
        call = Call(site, occurrence, self.autocast.dtype, source)
        if self.selection is not None:
            call.wanted = self.selection.wants(site.kind, site.phase, site.module_path, site.name, occurrence)
        return call

    def site_at(self, kind: Kind, phase: Phase, path: str, module_type: str, name: str) -> Site:
        """Return where calls of a kind, of an operator, module or optimizer `name` at `path`, are counted."""
        place = (kind, phase, path, name)
        tally = self._tallies.get(place)
        if tally is None:
            tally = self._tallies[place] = Tally()
        site = tally.sites.get(module_type)
        if site is None:
            site = tally.sites[module_type] = Site(kind, phase, path, module_type, name, tally)
        return site

    def keep(self, call: Call, named: Named, values: Any) -> None:
        """Keep the whole tensors of one side of a row that was asked for; `values` hold them in the order of names."""
        if call.wanted:
            keep(named, values)

    # -- tensors ------------------------------------------------------------------------------

    def use(self, storages: FastStorages | None) -> None:
        """Follow memory by these storages from the step on that begins; None for our own."""
        self._look = storages.look if storages is not None else None
        self.fast = storages
        self.storages = storages or StorageTable()

    def see(self, tensor: Tensor, version: int | None = None) -> Seen:
        """Return the note of a tensor as it is now; `version` as in `StorageTable.find`."""
        if self._look is not None:
            return self._look(tensor, version)
        seen, is_new = self.storages.find(tensor, version)
        if is_new and self.tensor_probes and not is_wrapper(part := local_part(tensor)):
            for probe in self.tensor_probes:
                probe.on_tensor(seen, part)
        return seen

    def see_copy(self, source: Seen, tensor: Tensor) -> Seen:
        """Return the note of a tensor that was just copied from the one of `source`, whose statistics it has."""
        if self._look is not None:
            return self._look(tensor, None, source)
        seen, is_new = self.storages.find(tensor)
        if is_new and self.tensor_probes and not is_wrapper(part := local_part(tensor)):
            seen.twin = source.twin or source
            for probe in self.tensor_probes:
                probe.on_tensor(seen, part)
        return seen

    def see_loss(self, loss: Tensor) -> Seen:
        """Return the note of a loss, whose statistics are taken with any values."""
        loss = local_part(loss)
        seen = self.see(loss if is_wrapper(loss) else loss.detach())
        if seen.statistics is None:
            self._loss_stats.on_tensor(seen, loss)
        return seen

    def see_all(self, tensors: Iterable[tuple[str, Tensor]]) -> Named:
        """Return the notes of named tensors."""
        found: Named = []
        for name, tensor in tensors:
            found += (name, self.see(tensor))
        return found


class _OwnWork:
    """See `Notebook.own_work`. NOTE: a class, because a generator's context costs twice as much (measured)."""

    __slots__ = ("_notebook", "_undispatched", "_was_busy", "_was_differentiating")

    def __init__(self, notebook: Notebook) -> None:
        self._notebook = notebook

    def __enter__(self) -> None:
        watch = self._notebook.watch
        self._was_busy, watch.busy = watch.busy, True
        self._notebook.clock.pause()
        self._was_differentiating = torch.is_grad_enabled()
        torch._C._set_grad_enabled(False)
        self._undispatched: Any = torch._C._DisableTorchDispatch()  # what runs in here need not pass through the mode

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> bool:
        self._undispatched = None
        torch._C._set_grad_enabled(self._was_differentiating)
        notebook = self._notebook
        if isinstance(error, Exception):  # whatever goes wrong in the observer must not end the run
            notebook.on_failure(error)
        notebook.clock.resume()
        notebook.watch.busy = self._was_busy
        return isinstance(error, Exception)
