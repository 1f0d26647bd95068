"""One run of job type 4 on a training: the split, its measurement and the vendor's file come out."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jumar.device import DevicePlan
from jumar.tune.bank.entry import Entry, Tried, stack_of
from jumar.tune.bank.store import Bank
from jumar.tune.job.gradients.layout import ends_of
from jumar.tune.job.gradients.messages import GradientOptions
from jumar.tune.job.gradients.trial import run_training, training
from jumar.tune.measure.worker.messages import Outcome
from jumar.tune.model.gate import Gain
from jumar.tune.model.machine import Machine
from jumar.tune.model.task import Policy, Task
from jumar.tune.search.gradients.forms import FILE_NAME, forms_of, write_gradient_fusion
from jumar.tune.search.gradients.model import Gradient, Link
from jumar.tune.search.gradients.outcome import Action, GradientResult, Training
from jumar.tune.search.gradients.solve import Bounds, solve
from jumar.tune.search.gradients.splits import Split, compared, evaluated

PROVIDER = "gradient_buckets"


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
