"""One run of job type 4: a training or a recording in; the split, its measurement and the vendor's file out."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jumar.device import DevicePlan
from jumar.recording import Recording
from jumar.tune.bank.entry import Entry, Tried, stack_of
from jumar.tune.bank.store import Bank
from jumar.tune.job.gradients.layout import ends_of
from jumar.tune.job.gradients.messages import SECONDS, Request
from jumar.tune.job.gradients.recorded import recorded_gradients
from jumar.tune.job.gradients.trial import measure_link, run_training, training
from jumar.tune.measure.worker.messages import Outcome
from jumar.tune.model.gate import Gain
from jumar.tune.model.machine import Machine
from jumar.tune.model.task import Policy, Task
from jumar.tune.search.gradients.forms import forms_of, in_parameter_order, write_gradient_fusion
from jumar.tune.search.gradients.model import ALL_REDUCE, Gradient, Link
from jumar.tune.search.gradients.outcome import Action, GradientResult, Training
from jumar.tune.search.gradients.solve import Bounds, solve
from jumar.tune.search.gradients.splits import (
    Split,
    ddp_default,
    evaluated,
    one_bucket,
    per_tensor,
)

PROVIDER = "gradient_buckets"
FILE_NAME = "gradient_fusion.json"
PROCESSES = 2
"""Processes between which the link of a recording is measured, where nothing else is asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientOptions:
    """What a run is asked to do."""

    bounds: Bounds = field(default_factory=Bounds)
    link: Link | None = None
    """Given; None: measured."""
    num_processes: int | None = None
    min_gain: float = 0.02
    time_budget_s: float | None = None
    repeat: bool = False
    """Measure again what the bank knows."""

    def request(self, bank: Bank) -> Request:
        """Return what the processes of a training are asked."""
        known = [] if self.repeat or self.bounds != Bounds() else [*_known(bank, self.min_gain)]
        seconds = SECONDS if self.time_budget_s is None else min(SECONDS, self.time_budget_s / 3)
        return Request(bounds=self.bounds, min_gain=self.min_gain, seconds=seconds, known=known, link=self.link)


def tune_training(
    words: Sequence[str], *, bank: Bank, result_folder: Path, options: GradientOptions, device: DevicePlan
) -> GradientResult:
    """Run the training that `words` start for its first steps, split its gradients and measure the proposal.

    Raises InputError where its gradients cannot be split or it cannot be run, ScriptError, BankError, OutputError.
    """
    bank.check_writable()
    began = time.monotonic()
    program = training(words, options.num_processes)
    answer = run_training(program, options.request(bank), device, options.time_budget_s)
    return answered(
        answer, program.title, bank=bank, result_folder=result_folder, options=options, began=began,
        soc=device.soc if device.kind == "npu" else "",
    )  # fmt: skip


def answered(
    answer: Mapping[str, Any], source: str, *, bank: Bank, result_folder: Path, options: GradientOptions, began: float,
    soc: str = "",
) -> GradientResult:  # fmt: skip
    """Return the result of what the processes of a training measured; keep it in the bank, write the vendor's file."""
    gradients = [Gradient(**one) for one in answer["gradients"]]
    link, machine = Link.from_json(answer["link"]), Machine.from_json(answer["machine"])
    task = Task.from_json(answer["task"])
    own = evaluated(gradients, link, answer["own_ends"])
    entry = bank.slots(task, machine)["Schedule"] if answer["status"] == "known" else None
    split = _split(answer, gradients, link, options.bounds, entry)
    forms = forms_of(gradients, link, split, options.bounds)
    gain = Gain.from_json(answer["gain"]) if "gain" in answer else None
    first = Gain.from_json(answer["first_gain"]) if "first_gain" in answer else None
    policy = Policy(
        kind="Schedule",
        provider=PROVIDER,
        settings={**answer.get("settings", {}), "all_reduce_fusion_config": list(forms.all_reduce_fusion_config)},
    )
    action: Action = ""
    if answer["status"] == "measured" and gain is not None:
        action = _kept(bank, task, machine, policy, gain, answer["disagreement"], options.min_gain)
    elif entry is not None:
        gain = entry.gain or next((one.outcome.gain for one in entry.tried), None)
        action = "reserved" if entry.policy is not None else "unsatisfied"
    file = result_folder / f"{soc or machine.device}_{FILE_NAME}"
    write_gradient_fusion(file, gradients)
    return GradientResult(
        source=source, gradients=gradients, link=link,
        link_source="given" if options.link is not None else
        f"measured between the {answer['world_size']} processes, by {answer['backend']}",
        own=own, split=split, others=compared(gradients, link), forms=forms, status=answer["status"],
        training=Training(
            num_processes=answer["world_size"], backend=answer["backend"], is_wrapped=answer["is_wrapped"],
            is_default=answer["is_default"], num_steps=answer["num_steps"], machine=machine, device=answer["device"],
        ),
        gain=gain, first_gain=first, buckets_before=answer.get("buckets_before", ()),
        buckets_after=answer.get("buckets_after", ()), disagreement=answer.get("disagreement", ""), action=action,
        min_gain=options.min_gain, bank=bank.name, fusion_file=file, wall_s=time.monotonic() - began,
    )  # fmt: skip


def tune_recording(
    path: Path, *, result_folder: Path, options: GradientOptions, rank: int | None = None
) -> GradientResult:
    """Split the gradients of a recording; nothing of it is measured but the link, where none is given.

    Raises InputError for a recording without gradients, RecordingError, OutputError.
    """
    began = time.monotonic()
    recording = Recording.open(path)
    gradients = recorded_gradients(recording, rank)
    is_mindspore = recording.info.framework == "mindspore"
    if is_mindspore:
        gradients = in_parameter_order(gradients)
    link, source = options.link, "given"
    if link is None:
        processes = options.num_processes or PROCESSES
        link = measure_link(processes, sum(one.size_bytes for one in gradients))
        source = f"measured between {processes} processes of this machine, by gloo"
    split = solve(gradients, link, options.bounds)
    file = result_folder / f"{recording.info.soc or recording.info.device.partition(' ')[0] or 'cpu'}_{FILE_NAME}"
    write_gradient_fusion(file, gradients)
    return GradientResult(
        source=str(path), gradients=gradients, link=link, link_source=source,
        own=evaluated(gradients, link, one_bucket(gradients) if is_mindspore else ddp_default(gradients)), split=split,
        others=compared(gradients, link)[: 2 if is_mindspore else None],
        forms=forms_of(gradients, link, split, options.bounds), status="solved", min_gain=options.min_gain,
        fusion_file=file, wall_s=time.monotonic() - began, framework="mindspore" if is_mindspore else "torch",
    )  # fmt: skip


def compared(gradients: Sequence[Gradient], link: Link) -> list[tuple[str, Split]]:
    """Return the splits that people choose by hand, with their tails."""
    named = {
        "one bucket": one_bucket(gradients),
        "one bucket a gradient": per_tensor(gradients),
        "DDP's default, 25 MiB": ddp_default(gradients),
    }
    return [(name, evaluated(gradients, link, ends)) for name, ends in named.items()]


def _split(
    answer: Mapping[str, Any], gradients: Sequence[Gradient], link: Link, bounds: Bounds, entry: Entry | None
) -> Split:
    """Return the split that was measured, now or for the bank's entry, else the one that the model proposes."""
    if "split" in answer:
        return evaluated(gradients, link, answer["split"]["ends"])
    if entry is not None:
        policy = entry.policy or entry.tried[0].policy
        return evaluated(gradients, link, ends_of(policy.settings, gradients))
    return solve(gradients, link, bounds)


def _known(bank: Bank, min_gain: float) -> Sequence[str]:
    """Return the keys whose answer the bank has: a policy, or none after an at least as eager search."""
    return [
        f"{entry.task.key}:{entry.machine.key}"
        for entry in bank.answers()
        if entry.task.operator == ALL_REDUCE and (entry.policy is not None or entry.min_gain <= min_gain)
    ]


def _kept(
    bank: Bank, task: Task, machine: Machine, policy: Policy, gain: Gain, disagreement: str, min_gain: float
) -> Action:
    """Write the policy where it passes the gate and is no worse than what the bank has; return what was done."""
    slots = bank.slots(task, machine)
    before: Entry | None = slots.get("Schedule")
    outcome = Outcome(
        status="disagrees" if disagreement else "measured", detail=disagreement, phase="measure", gain=gain
    )
    tried, incumbent = [Tried(policy=policy, outcome=outcome)], stack_of(list(slots.values()))
    is_better = before is None or before.gain is None or gain.ratio_low > before.gain.ratio_low
    if gain.clears(min_gain) and not disagreement and is_better:
        change = bank.accept(
            task, machine, policy, incumbent=incumbent, gain=gain, min_gain=min_gain, tried=tried, base=()
        )
        return change or "reserved"
    if before is not None and before.policy is not None:
        return "reserved"
    bank.remember_unsatisfied(task, machine, "Schedule", incumbent=incumbent, min_gain=min_gain, tried=tried)
    return "unsatisfied"
