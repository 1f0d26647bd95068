"""A tuning run: operators in, tasks tuned one after the other, bank and result file kept up to date."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from jumar.recording import Recording
from jumar.tune.bank import Bank
from jumar.tune.extract import Extraction
from jumar.tune.machine import Machine, this_machine
from jumar.tune.options import TuneOptions
from jumar.tune.outcome import TaskOutcome, TuneResult
from jumar.tune.policy import PolicyKind
from jumar.tune.providers import PROVIDERS, Provider
from jumar.tune.result_file import ResultFile
from jumar.tune.rules import findings_of
from jumar.tune.search import OutOfBudget, Search
from jumar.tune.selection import Selection
from jumar.tune.source import Source, open_source
from jumar.tune.task import Task
from jumar.tune.worker import Limits, Outcome, Trial, Worker

Progress = Callable[[int, int, str], None]
"""Tasks done, tasks in all, what is being tuned."""


def tune(
    source: Recording | str | Path,
    *,
    bank: Bank,
    result_folder: Path,
    options: TuneOptions | None = None,
    machine: Machine | None = None,
    providers: Sequence[Provider] = PROVIDERS,
    rank: int | None = None,
    selection: Selection | None = None,
    on_progress: Progress | None = None,
) -> TuneResult:
    """Tune the operators of a recording, or of a folder that `torch.npu.set_aoe` filled, on `machine` (this one).

    `selection` leaves out what it does not mean.
    Every policy that is accepted is in `bank` before the next task begins. Ctrl-C ends the run and
    returns what was found, with `stopped_by`. Raises JumarError for a recording, bank or folder that
    cannot be used.
    """
    opened = open_source(source, rank=rank, selection=selection)
    run = _Run(
        options=options or TuneOptions(),
        bank=bank,
        machine=machine or this_machine(),
        providers=providers,
        file=ResultFile(result_folder),
        on_progress=on_progress,
    )
    return run.carry_out(opened)


class _Run:
    """The state of one run: its budget, its worker, its result."""

    def __init__(
        self,
        *,
        options: TuneOptions,
        bank: Bank,
        machine: Machine,
        providers: Sequence[Provider],
        file: ResultFile,
        on_progress: Progress | None,
    ) -> None:
        self._options = options
        self._bank = bank
        self._machine = machine
        self._missing = {provider.name: why for provider in providers if (why := provider.unavailable(machine))}
        self._providers = [provider for provider in providers if provider.name not in self._missing]
        self._worker = Worker(self._providers)
        self._file = file
        self._on_progress = on_progress
        self._start = time.monotonic()
        self._result: TuneResult

    def carry_out(self, source: Source) -> TuneResult:
        """Tune every task, as far as the budget goes."""
        self._result = self._begun(source)
        self._write()
        try:
            with self._worker:
                self._tune_all(source.extraction)
        except OutOfBudget as error:
            self._result.stopped_by = str(error)
        except KeyboardInterrupt:
            self._result.stopped_by = "Ctrl-C"
        else:
            self._result.status = "failed" if self._result.failed() else "successful"
        self._write(ended=self._result.stopped_by != "Ctrl-C")
        self._result.findings = findings_of(self._result)
        return self._result

    def _begun(self, source: Source) -> TuneResult:
        extraction = source.extraction
        return TuneResult(
            recording=source.path,
            recorded_device=source.device,
            machine=self._machine,
            min_gain=self._options.min_gain,
            num_tasks=len(extraction.tasks),
            num_calls=extraction.num_calls,
            not_tuned=extraction.not_tuned,
            providers=[provider.name for provider in self._providers],
            missing_providers=self._missing,
            load_average=os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
            bank=self._bank.name,
            result_file=self._file.path,
        )

    def _tune_all(self, extraction: Extraction) -> None:
        total = len(extraction.tasks)
        search = Search(
            bank=self._bank,
            machine=self._machine,
            options=self._options,
            providers=self._providers,
            measure=self._measure,
            confirm=self._confirm,
            on_slot=lambda task, kind: self._say(total, task, kind),
        )
        for use in extraction.tasks:
            outcome = TaskOutcome(use=use)
            self._result.tasks.append(outcome)
            try:
                search.tune(outcome)
            finally:
                self._write()
        if self._on_progress is not None:
            self._on_progress(total, total, "")

    def _say(self, total: int, task: Task, kind: PolicyKind) -> None:
        if self._on_progress is not None:
            self._on_progress(len(self._result.tasks) - 1, total, f"{kind} of {self._result.tasks[-1].use.name}")

    def _measure(self, trial: Trial) -> Outcome:
        """Carry out a screening, if the number of trials allows it."""
        if self._options.max_trials is not None and self._result.num_trials >= self._options.max_trials:
            raise OutOfBudget("--trials")
        outcome = self._confirm(trial)
        self._result.num_trials += 1
        return outcome

    def _confirm(self, trial: Trial) -> Outcome:
        """Carry out a trial within what is left of the time."""
        limits = self._options.limits
        left = self._left_s()
        if left <= 0:
            raise OutOfBudget("--time-budget")
        outcome = self._worker.run(trial, Limits(time_s=min(limits.time_s, left), memory_bytes=limits.memory_bytes))
        if outcome.status == "timeout" and left < limits.time_s:
            raise OutOfBudget("--time-budget")  # the candidate was not given its full time: it is not judged
        self._result.num_measurements += 1
        return outcome

    def _left_s(self) -> float:
        if self._options.time_budget_s is None:
            return self._options.limits.time_s
        return self._options.time_budget_s - (time.monotonic() - self._start)

    def _write(self, *, ended: bool = False) -> None:
        self._result.wall_s = time.monotonic() - self._start
        self._file.write(self._result, ended=ended)
