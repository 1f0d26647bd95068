"""`advise_timeline`: every rule over one rank's timeline, and the answer in order of what it would save."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from jumar.advise.bottlenecks.advice import Advice, OperatorSummary, StepSummary
from jumar.advise.bottlenecks.engine import in_order
from jumar.advise.checks import NotChecked, codes_checked, finders, not_checked, split
from jumar.advise.timing.profile import WORK, Profile
from jumar.advise.timing.thresholds import Thresholds
from jumar.base.findings import Finding
from jumar.timeline.decompose import Decomposition, decompose
from jumar.timeline.model.events import Kind, Timeline
from jumar.timeline.totals import totals

RULES = "advise.timing"

OnProgress = Callable[[int, int], None]


def advise_timeline(
    timeline: Timeline,
    thresholds: Thresholds | None = None,
    parts: Decomposition | None = None,
    on_progress: OnProgress | None = None,
) -> Advice:
    """Return the bottlenecks of one rank's timeline, those that would save most first.

    `parts` is what `decompose` says of it, where it is known; `on_progress(done, total)` is called after each rule.
    """
    profile = Profile(timeline=timeline, thresholds=thresholds or Thresholds.load())
    modules = finders(RULES)
    answers = []
    works = profile.has(*WORK) or bool(timeline.allocations)
    for done, module in enumerate(modules, start=1):
        nothing = [not_checked(module.RULE, "the profile has no operator and no kernel.")]
        answers.append(list(module.find(profile)) if works or not _needs_work(module) else nothing)
        if on_progress is not None:
            on_progress(done, len(modules))
    found = parts or decompose(timeline)
    findings, gaps = split(outcome for answer in answers for outcome in answer)
    gaps, foreign = _without_device_rules(gaps, modules, timeline)
    return Advice(
        recording=timeline.source,
        device=(timeline.device or "no named device") + (ESTIMATES if _is_estimated(timeline) else ""),
        soc=timeline.device_name,
        rank=timeline.rank,
        num_steps=len(timeline.steps),
        findings=in_order([_worded(finding, timeline) for finding in findings]),
        operators=_operators(profile),
        steps=_steps(profile, found),
        parts=found.words,
        saves_at_most_ms=round(profile.saved_together_ms(), 3),
        not_checked=(*gaps, *foreign, *_absent(timeline)),
        checked=codes_checked([module for module in modules if not foreign or not _needs_device(module)], gaps),
        warnings=(*timeline.lost, *_stepless(timeline)),
    )


ESTIMATES = " (emulated: its times are estimates, none was measured)"


def _is_estimated(timeline: Timeline) -> bool:
    return timeline.facts.get("is_estimate") == "true"


def _needs_device(module: Any) -> bool:
    """Tell whether a rule is about a device only (`NEEDS_DEVICE` of its module)."""
    return bool(getattr(module, "NEEDS_DEVICE", False))


def _needs_work(module: Any) -> bool:
    """Tell whether a rule needs operators or kernels (`NEEDS_WORK` of its module): a data pipeline has none."""
    return bool(getattr(module, "NEEDS_WORK", True))


def _without_device_rules(
    gaps: Sequence[NotChecked], modules: Sequence[Any], timeline: Timeline
) -> tuple[list[NotChecked], list[NotChecked]]:
    """Return the gaps without those of rules about devices, and one line for these, where the run used the CPU only.

    A trace without a device's events does not prove that: only `jumar profile` notes what the run used.
    """
    codes = {module.RULE.code for module in modules if _needs_device(module)}
    if timeline.facts.get("run_device") != "cpu" or not codes:
        return list(gaps), []
    told = f"{len(codes)} rules are about a device, and this run was on the CPU: {', '.join(sorted(codes))}."
    kept = [gap for gap in gaps if gap.code not in codes]
    return kept, [NotChecked(code="", name="rules about a device", reason=told)]


def _worded(finding: Finding, timeline: Timeline) -> Finding:
    """Return the finding, marked where its times are estimates; of a profile without steps it speaks of the whole."""
    if _is_estimated(timeline):
        finding = replace(finding, evidence={**finding.evidence, "is_estimate": True}, confidence="possible")
    if timeline.steps:
        return finding
    message = (
        finding.message.replace("each step", "the profile")
        .replace("a step would", "it would")
        .replace("a step", "in all")
    )
    message = message.replace("of the step", "of it")
    return replace(finding, message=message)


def _stepless(timeline: Timeline) -> list[str]:
    return [] if timeline.steps else ["its steps are not known: the whole of it counts as one step"]


def _absent(timeline: Timeline) -> list[NotChecked]:
    return [NotChecked(code="", name=name, reason=reason) for name, reason in timeline.absent.items()]


def _operators(profile: Profile) -> tuple[OperatorSummary, ...]:
    """Return the operators, kernels, copies and collectives of the whole timeline by own time, the greatest first."""
    rows = totals(replace(profile.timeline, names=profile.kernel_types)).of(*WORK)
    whole = sum(row.self_ns for row in rows)
    steps = max(len(profile.windows), 1)
    return tuple(
        OperatorSummary(
            name=row.name,
            num_calls=row.calls,
            calls_per_step=row.calls / steps,
            host_time_us_per_step=row.self_ns / 1000 / steps,
            host_time_share=row.self_ns / whole if whole else 0.0,
            bytes_per_step=None,
            flops_per_step=None,
            dtypes=(),
            phases=(row.side,),
            is_view=False,
            support="",
        )
        for row in sorted(rows, key=lambda row: -row.self_ns)
    )


def _steps(profile: Profile, found: Decomposition) -> Sequence[StepSummary]:
    timeline = profile.timeline
    works = timeline.of(Kind.OPERATOR, Kind.KERNEL)
    begins = np.sort(timeline.events.start_ns[works])
    return tuple(
        StepSummary(
            step=one.step.number,
            span_us=one.step.duration_ns / 1000,
            operator_us=sum(one.parts.get(part, 0) for part in _CALCULATES) / 1000,
            phase_us={part: nanoseconds / 1000 for part, nanoseconds in one.parts.items()},
            wait_us=None,
            num_operators=int(np.searchsorted(begins, one.step.end_ns) - np.searchsorted(begins, one.step.start_ns)),
            bytes_moved=None,
            flops=None,
        )
        for one in found.steps
    )


_CALCULATES = ("forward", "backward", "optimizer", "operators")
"""Parts of a step in which operators run, on the device where it has a side."""
