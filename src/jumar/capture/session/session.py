"""A recording of this process from start to end: the observer, the writer, and how the run ended."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from jumar.base.errors import OutputError, UsageError
from jumar.capture.notes.calls import Call
from jumar.capture.observe.budget_control import BudgetControl
from jumar.capture.observe.compiled import compiled_regions, known_codes, modules_inside, silence_hooks
from jumar.capture.observe.graphs import GraphWatch
from jumar.capture.observe.observer import Observer, ObserverOptions
from jumar.capture.plans.plan import RecordPlan
from jumar.capture.plans.selection import Selection
from jumar.capture.probes import probes_for
from jumar.capture.session.ending import Status, ending_of
from jumar.capture.session.outlook import program_may_train
from jumar.capture.session.settings import device_met, run_info
from jumar.capture.session.sink import Sink
from jumar.capture.session.vary import varied
from jumar.capture.watch.kernels import unseen_kernels, watch_kernels
from jumar.device import ActiveDevice
from jumar.recording import RecordingWriter, RunEnd, RunInfo, StepInfo, claim_rank, is_claimed
from jumar.recording.history.model import HistoryStep
from jumar.recording.history.writer import HistoryWriter


class Session:
    """Observes this process. With `plan=None` it only counts steps and stops after `stop_after`.

    Raises OutputError when the recording's folder cannot be used, UsageError when a session is
    under way already. `on_step` is told the number of each recorded step, or of each step without a plan.
    """

    current: Session | None = None
    """The session under way in this process."""

    def __init__(
        self,
        plan: RecordPlan | None,
        *,
        device: ActiveDevice | None = None,
        stop_after: int | None = None,
        model: torch.nn.Module | None = None,
        folder: Path | None = None,
        on_step: Callable[[int], None] | None = None,
    ) -> None:
        if Session.current is not None:
            raise UsageError("a recording is under way in this process already. End it before you start another.")
        self._plan = plan
        self._device = device
        self._on_step = on_step
        self._sink: Sink | None = None
        self._history: HistoryWriter | None = None
        self._is_described = False
        self._started = time.monotonic()
        self._process = os.getpid()
        self._info = run_info(plan, device) if plan is not None else RunInfo()
        self._budget = BudgetControl(plan) if plan is not None and plan.has_budget else None
        if plan is not None and not plan.prepared:
            RecordingWriter(Path(plan.out), self._info, force=plan.force)
        options = ObserverOptions(
            levels=plan.levels if plan is not None else (),
            steps=plan.steps if plan is not None else None,
            records=self._records if self._budget is not None else None,
            stop_after=stop_after,
            on_history=self._keep_history if plan is not None else None,
            on_end=self._end_step if self._budget is not None else on_step if plan is None else None,
            on_restart=self._discard if plan is not None else None,
            may_train=program_may_train,
        )
        probes = probes_for(plan.values, folder) if plan is not None else []
        if self._budget is not None:
            probes = self._budget.wrap(probes)
        self._conditions = ExitStack()
        self.observer = Observer(options, probes, self._write if plan is not None else None, model)
        self._graphs = GraphWatch(self.observer, plan.compiled) if plan is not None and "op" in plan.levels else None
        self._unwatched: list[Any] = []
        self._undo: Callable[[], None] = lambda: None
        self._selection = self._select(plan) if plan is not None and plan.tensors_of else None

    def start(self) -> None:
        """Begin to observe."""
        Session.current = self
        if self._plan is not None:
            self._conditions.enter_context(varied(self._plan.vary))
        os.register_at_fork(after_in_child=self._after_fork)
        self._unwatched = known_codes()
        self._undo = silence_hooks()
        watch_kernels()
        if self._graphs is not None:
            self._graphs.start()
        self.observer.start()
        if self._budget is not None:
            self._budget.start(self.observer)

    def end(self, status: Status, *, exit_code: int = 0, error: str = "") -> RunEnd:
        """Stop observing, write what is finished and how the run ended.

        When the disk is full, only the end file is missing, and the recording reads as killed.
        """
        Session.current = None
        self.observer.finish(complete=status in {"finished", "exited"})
        self._conditions.close()
        if self._graphs is not None:
            self._graphs.stop()
        self._undo()
        self.flush()
        if self._history is not None:
            self._history.close()
        sentences = [*self.observer.not_covered, *self._own_sentences()]
        if self._sink is not None and self._sink.failure:
            sentences.insert(0, self._sink.failure)
        end = RunEnd(
            rank=current_rank(),
            status=status,
            exit_code=exit_code,
            num_steps=self.observer.step,
            wall_s=time.monotonic() - self._started,
            error=error,
            not_covered=tuple(sentences),
        )
        self._close(end)
        return end

    def flush(self) -> None:
        """Wait until every finished step is on the disk, or could not be written."""
        if self._sink is not None:
            self._sink.wait()

    def end_by(self, error: BaseException | None) -> RunEnd:
        """End with the `error` that is about to end the process; None for a normal end."""
        if self.observer.was_stopped:
            return self.end("stopped")
        status, exit_code, text = ending_of(error)
        return self.end(status, exit_code=exit_code, error=text)

    @property
    def num_rows(self) -> int:
        """Rows that are on the disk."""
        return self._sink.num_rows if self._sink is not None else 0

    def _write(self, step: int, calls: Sequence[Call], info: StepInfo | None = None) -> bool:
        if self._sink is None:
            self._sink = self._open_sink(calls)
        if self._sink is None:
            return False
        if not self._is_described:
            self._describe(self._sink.writer, calls)
        if self._budget is not None:
            self.flush()
            self._budget.count_files(current_rank())
            calls, told = self._budget.fit(step, calls)
            info = replace(info or StepInfo(), not_kept=tuple(told))
            if not calls:
                return True
            self._budget.was_handed_over(step)
        self._sink.write(step, calls, info)
        if self._on_step is not None:
            self._on_step(step)
        return not self._sink.failure

    def _keep_history(self, step: HistoryStep) -> None:
        """Append a step to the history of this process's rank, unless another process records as that rank."""
        assert self._plan is not None
        folder, rank = Path(self._plan.out), current_rank()
        if self._history is None and claim_rank(folder, rank):
            self._history = HistoryWriter(folder, rank)
        if self._history is not None:
            self._history.write(step if self._budget is None else self._budget.fit_history(step))
            if self._budget is not None:
                self._budget.count_history(self._history.num_bytes)

    def _discard(self) -> None:
        """Remove the steps written so far: they were none."""
        self.flush()
        if self._sink is not None:
            self._sink.discard()
            self._is_described = False
        if self._history is not None:
            self._history.close()
            self._history = None  # the next one begins the file anew

    def _records(self, step: int) -> bool:
        assert self._budget is not None
        return self._budget.budget.records(step)

    def _end_step(self, step: int) -> None:
        assert self._budget is not None
        self._budget.end_step(step, self.observer)

    def _select(self, plan: RecordPlan) -> Selection:
        selection = Selection(plan.tensors_of, lambda: self.observer.step)
        self.observer.notebook.selection = selection
        return selection

    def _own_sentences(self) -> list[str]:
        """Return what was not seen or left out by the budget, and patterns of the selection that met no row."""
        history = self.observer.history
        sentences = [history.failure] if history is not None and history.failure else []
        sentences += [unseen_kernels()] if unseen_kernels() else []
        if self._graphs is not None:
            sentences += compiled_regions(self._graphs.regions, self._unwatched)
            if self._plan is not None and "module" in self._plan.levels:
                sentences += modules_inside(self._graphs.with_modules)
        sentences += self._budget.sentences() if self._budget is not None else []
        if self._selection is not None:
            sentences += [f"no recorded row matches {text!r} of tensors-of" for text in self._selection.unmet()]
        return sentences

    def _open_sink(self, calls: Sequence[Call]) -> Sink | None:
        """Return the sink of this process's rank, or None when another process records as that rank."""
        assert self._plan is not None
        rank = current_rank()
        if not claim_rank(Path(self._plan.out), rank):
            sys.stderr.write(f"jumar: another process records as rank {rank}; process {os.getpid()} is not recorded.\n")
            return None
        writer = RecordingWriter(Path(self._plan.out), self._info, rank=rank, join=True)
        if self._budget is not None:
            self._budget.share_between(max(self._info.num_ranks, world_size()))
        return Sink(writer, only_wanted=self._plan.values != "tensors")

    def _describe(self, writer: RecordingWriter, calls: Sequence[Call]) -> None:
        """Write how the run is set up: by now the script has set its threads, seeds and flags."""
        assert self._plan is not None
        self._is_described = True
        if writer.rank == 0:
            known = run_info(self._plan, None)
            ranks = max(known.num_ranks, world_size())
            layers = self.observer.names.layers()
            info = replace(self._info, settings=known.settings, num_ranks=ranks, layers=layers)
            writer.update_info(replace(info, **self._device_met(calls)))

    def _device_met(self, calls: Sequence[Call]) -> dict[str, Any]:
        """Return what the first step says of the device where nobody brought one up for the recording."""
        if self._device is not None:
            return {}
        return device_met({seen.device.type for call in calls for seen in call.outputs[1::2]})

    def _close(self, end: RunEnd) -> None:
        if self._plan is None:
            return
        try:
            if self._sink is not None:
                self._sink.close(end)
            elif self._history is not None or self._tells(end):
                RecordingWriter(Path(self._plan.out), self._info, rank=end.rank, join=True).close(end)
        except (OSError, OutputError) as error:
            sys.stderr.write(f"jumar: the end of the recording could not be written: {error}\n")

    def _tells(self, end: RunEnd) -> bool:
        """Return whether a process that recorded nothing says how it ended: the first, unless a child process did; and
        a rank that raised, unless another process records as that rank."""
        assert self._plan is not None
        folder = Path(self._plan.out)
        if self._plan.prepared:
            return end.status == "raised" and not is_claimed(folder, end.rank)
        return not any(folder.glob("end-rank-*.json"))

    def _after_fork(self) -> None:
        if Session.current is self:
            Session.current = None
            self.observer.drop_after_fork()


def current_rank() -> int:
    """Return this process's rank: torch.distributed's when it is initialised, else RANK, else 0."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank()
    rank = os.environ.get("RANK", "")
    return int(rank) if rank.isdecimal() else 0


def world_size() -> int:
    """Return the number of ranks as far as torch.distributed knows; 1 without it."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_world_size()
    return 1
