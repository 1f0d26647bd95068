"""A tuning run: operators or graphs in, tuned one after the other, bank and result file kept up to date."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from jumar.base.errors import OutputError, UsageError
from jumar.recording import Recording
from jumar.tune.bank.store import Bank
from jumar.tune.job.result_file import ResultFile
from jumar.tune.measure.conditions.preconditions import Conditions
from jumar.tune.measure.measuring import Measurer, OutOfBudget, PreparingRunner
from jumar.tune.measure.options import JOB_SUBGRAPHS, PrecisionOptions, Space, TuneOptions
from jumar.tune.measure.parallel import ParallelBuilders
from jumar.tune.measure.resume import JobFile
from jumar.tune.measure.worker.client import Turns, Worker
from jumar.tune.model.machine import Machine, this_machine
from jumar.tune.model.process import INTERRUPTIONS, reason
from jumar.tune.model.task import PolicyKind, Task
from jumar.tune.plan.plan import KIND
from jumar.tune.providers import Provider, providers_on
from jumar.tune.search.outcome import TaskOutcome, TuneResult
from jumar.tune.search.tasks.extract import Extraction, Selection
from jumar.tune.search.tasks.source import Source, open_source

_WORTH_SAYING_S = 1.0
Progress = Callable[[int, int, str], None]
"""Tasks done, tasks in all, what is being tuned."""
MakeRunner = Callable[[Sequence[Provider], Machine], PreparingRunner]
"""Makes what carries trials out: a cluster, for instance."""


def tune(
    source: Recording | Source | str | Path,
    *,
    bank: Bank,
    result_folder: Path,
    options: TuneOptions | None = None,
    machine: Machine | None = None,
    providers: Sequence[Provider] | None = None,
    rank: int | None = None,
    selection: Selection | None = None,
    on_progress: Progress | None = None,
    conditions: Conditions | None = None,
    space: Space | None = None,
    make_runner: MakeRunner | None = None,
    precision: PrecisionOptions | None = None,
    began: float | None = None,
    turns: Turns | None = None,
) -> TuneResult:
    """Tune the operators of a recording, or of a folder that `torch.npu.set_aoe` filled, on `machine` (this one).

    A `Source` of a model (`jumar.tune.search.tasks.source.model_source`) has operators and graphs: `options.job_type`
    says which are tuned, `space` what is searched for graphs. `selection` names the operators that are tuned.
    `conditions` is the machine as it was found, which findings judge and which says how many candidates are compiled at
    once (one, when None). `make_runner` makes what measures instead of a worker process of this machine
    (`jumar.tune.measure.cluster.Cluster`). `precision` searches fewer bits for graphs under an error budget, and writes
    what was chosen into `result_folder`. `began`, in `time.monotonic`, is when the user began to wait (None: now): the
    time budget holds from there. With `turns` other runs on this machine measure in between, never at the same time.
    Every policy that is accepted is in `bank` before the next task begins. Ctrl-C (and SIGTERM, within
    `ending_in_order`) ends the run and returns what was found, with `stopped_by`; the same call goes on from there. A
    result file that can no longer be written ends no run: `result_file_failure` says so. Raises JumarError for a
    recording, bank, folder or precision file that cannot be used."""
    precision = precision or PrecisionOptions()
    if precision.file is not None:
        from jumar.tune.search.precision.request.files import with_file_read

        precision = with_file_read(precision)
    opened = source if isinstance(source, Source) else open_source(source, rank=rank, selection=selection)
    options = options or TuneOptions()
    if options.job_type == JOB_SUBGRAPHS and not opened.graphs:
        raise UsageError(
            f"--job-type 1 tunes the graphs of a model, which {opened.path} does not have. Give it an .onnx or .pt2 "
            "file, module:callable, or a script; or use --job-type 2."
        )
    if precision.is_asked and options.job_type != JOB_SUBGRAPHS:
        raise UsageError("--precision lowers the graphs of a model, which are tuned by --job-type 1; add it.")
    if precision.is_asked and precision.metric and any(one.is_piece for one in opened.graphs):
        raise UsageError(
            "--metric judges the outputs of a model, and this one is tuned in pieces, which hand on other tensors. "
            "Leave --metric out: the budget is then for what each piece hands on."
        )
    machine = machine or this_machine()
    if options.job_type == JOB_SUBGRAPHS:
        _check_device(machine, precision)
    if providers is None:
        providers = _providers(machine, opened, options.job_type)
    run = _Run(
        options=options,
        bank=bank,
        machine=machine,
        providers=providers,
        file=ResultFile(result_folder, job_type=options.job_type),
        on_progress=on_progress,
        conditions=conditions,
        space=(space or Space()) if machine.device == "cpu" else replace(space or Space(), can_cut=False),
        make_runner=make_runner,
        precision=precision,
        began=began,
        turns=turns,
    )
    return run.carry_out(opened)


def _providers(machine: Machine, source: Source, job_type: int) -> list[Provider]:
    """Return the providers that a job asks, those of its graphs among them."""
    operators = [] if job_type == JOB_SUBGRAPHS else providers_on(machine)
    if job_type != JOB_SUBGRAPHS and not source.graphs:
        return operators
    from jumar.tune.search.subgraph.tune import graph_providers

    return [*operators, *graph_providers()]


def _check_device(machine: Machine, precision: PrecisionOptions) -> None:
    """Refuse what is not done for graphs on this device. Raises UsageError."""
    if machine.device == "cuda":
        raise UsageError(
            "--job-type 1 is for cpu and npu, and --device is cuda. Use --job-type 2, which also tries the model with "
            "all policies of its operators."
        )
    if machine.device != "cpu" and precision.is_asked:
        raise UsageError(
            f"--precision lowers graphs for the CPU, and --device is {machine.target}. Leave one of them out."
        )


@dataclass(kw_only=True)
class _Run:
    """The state of one run: its budget, its worker, its result."""

    options: TuneOptions
    bank: Bank
    machine: Machine
    providers: Sequence[Provider]
    file: ResultFile
    on_progress: Progress | None
    conditions: Conditions | None
    space: Space
    make_runner: MakeRunner | None
    precision: PrecisionOptions
    began: float | None
    turns: Turns | None

    def __post_init__(self) -> None:
        machine = self.machine
        self.turns = None if machine.is_estimate else self.turns
        self._missing = {provider.name: why for provider in self.providers if (why := provider.unavailable(machine))}
        self.providers = [provider for provider in self.providers if provider.name not in self._missing]
        lanes = 1 if self.conditions is None else self.conditions.lanes.count
        self._runner: PreparingRunner = (
            ParallelBuilders(lambda: Worker(self.providers, self.turns, machine.target), lanes)
            if self.make_runner is None
            else self.make_runner(self.providers, machine)
        )
        self._is_file_begun = False
        self._measurer: Measurer
        self._result: TuneResult

    def carry_out(self, source: Source) -> TuneResult:
        """Tune every task, as far as the budget goes."""
        job = JobFile.open(
            self.file.path.parent,
            name=source.path,
            work_keys=self._work_keys(source),
            machine=self.machine,
            repeat=self.options.repeat,
        )
        with job, self._runner:
            prepare = self._runner.prepare if self._runner.num_lanes > 1 else None
            self._measurer = Measurer(self.options, self._runner, prepare=prepare, job=job, began=self.began)
            self._result = self._begun(source, job)
            self._write()
            try:
                if self._is_of_graphs:
                    self._tune_graphs(source)
                else:
                    self._tune_all(source.extraction)
                    self._compose(source)
                    if self._result.has_unfinished():
                        raise OutOfBudget("--time-budget")  # the next run takes up what had too little time
            except OutOfBudget as error:
                self._result.stopped_by = str(error)
            except KeyboardInterrupt as error:
                self._result.stopped_by = reason(error)
            else:
                failed = self._result.failed_graphs() if self._is_of_graphs else self._result.failed()
                self._result.status = "failed" if failed else "successful"
                if not (job.num_known and self._result.num_not_judged()):
                    job.finish()  # else the next run takes from it what was judged, and measures the rest
        self._result.notes += [*self._runner.notes, *self._waits()]
        self._write(ended=self._result.stopped_by not in INTERRUPTIONS)
        from jumar.tune.rules import findings_of

        self._result.findings = findings_of(self._result)
        return self._result

    def _waits(self) -> list[str]:
        """Say how long other runs measured on this machine, where that is worth saying."""
        if self.turns is None or self.turns.waited_s < _WORTH_SAYING_S:
            return []
        return [f"Other runs measured on this machine, too; this one waited {self.turns.waited_s:.0f} s for its turns."]

    @property
    def _is_of_graphs(self) -> bool:
        return self.options.job_type == JOB_SUBGRAPHS

    def _work_keys(self, source: Source) -> list[str]:
        if self._is_of_graphs:
            return [captured.graph.key for captured in source.graphs]
        return [use.task.key for use in source.extraction.tasks]

    def _begun(self, source: Source, job: JobFile) -> TuneResult:
        extraction = source.extraction
        return TuneResult(
            recording=source.path,
            recorded_device=source.device,
            machine=self.machine,
            min_gain=self.options.min_gain,
            job_type=self.options.job_type,
            is_offline=source.is_offline,
            num_graphs=len(source.graphs),
            num_tasks=len(extraction.tasks),
            num_calls=extraction.num_calls,
            not_tuned=extraction.not_tuned,
            providers=[one.name for one in self.providers if self._is_of_graphs or one.kind != KIND],
            missing_providers=self._missing,
            load_average=os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
            bank=self.bank.name,
            result_file=self.file.path,
            history=self._measurer.history,
            notes=[*job.notes, *extraction.notes],
            conditions=self.conditions,
        )

    def _tune_all(self, extraction: Extraction) -> None:
        from jumar.tune.search.operators import Search

        total, measurer = len(extraction.tasks), self._measurer
        search = Search(
            bank=self.bank,
            machine=self.machine,
            options=self.options,
            providers=self.providers,
            measure=lambda trial: measurer.screen(trial, limit_s=measurer.share_s()),
            confirm=measurer.confirm,
            prepare=lambda trials: measurer.prepare(trials, limit_s=measurer.share_s()),
            on_slot=lambda task, kind: self._say(total, task, kind),
        )
        for use in extraction.tasks:
            outcome = TaskOutcome(use=use)
            self._result.tasks.append(outcome)
            self._measurer.name = use.name
            try:
                search.tune(outcome)
            finally:
                self._write()
        if self.on_progress is not None:
            self.on_progress(total, total, "")

    def _compose(self, source: Source) -> None:
        """Measure a model's graphs with the policies of their operators."""
        if not source.is_offline or all(provider.kind != KIND for provider in self.providers):
            return
        from jumar.tune.search.composed import Composer

        composer = Composer(bank=self.bank, machine=self.machine, options=self.options, measurer=self._measurer)
        for captured in source.graphs:
            if not captured.reason_not_tuned:
                self._result.composed.append(composer.compose(captured))
                self._result.notes += filter(None, [self._result.composed[-1].told])
                self._write()

    def _tune_graphs(self, source: Source) -> None:
        from jumar.tune.job.graphs import PrecisionJob, SubgraphJob
        from jumar.tune.plan.provider import sharing_builds

        job = SubgraphJob(
            bank=self.bank,
            machine=self.machine,
            options=self.options,
            measurer=self._measurer,
            space=self.space,
            result=self._result,
            on_progress=self.on_progress,
            write=self._write,
            precision=PrecisionJob(
                precision=self.precision, machine=self.machine, options=self.options, measures=self._measurer,
                result=self._result, folder=self.file.path.parent, bank=self.bank,
            ),
        )  # fmt: skip
        with sharing_builds():
            job.tune(source.graphs)

    def _say(self, total: int, task: Task, kind: PolicyKind) -> None:
        if self.on_progress is not None:
            self.on_progress(len(self._result.tasks) - 1, total, f"{kind} of {self._result.tasks[-1].use.name}")

    def _write(self, *, ended: bool = False) -> None:
        self._result.wall_s = self._measurer.elapsed_s()
        self._result.num_trials = self._measurer.num_trials
        self._result.num_measurements = self._measurer.num_measurements
        try:
            self.file.write(self._result, ended=ended)
        except OutputError as error:
            if not self._is_file_begun:
                raise
            # A disk that fills up while an hour of tuning goes on must not end it: the bank keeps what is found.
            self._result.result_file_failure = str(error)
        else:
            self._is_file_begun, self._result.result_file_failure = True, ""
