"""The answer of `jumar port` in one sentence, the figures behind it, and what to do next."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

from jumar.base.findings import Finding, Severity
from jumar.base.text import counted
from jumar.comparison import Comparison
from jumar.port.options import PortOptions
from jumar.port.proof import compared_losses
from jumar.port.result import PortResult
from jumar.port.rules import FELL_BACK, MODULE_NOT_CONVERTED, NO_TRAINING_COMPARED, OTHER_NUMBER_OF_DEVICES
from jumar.show.blocks.page import Action, Status, Verdict
from jumar.show.commands import git_apply, module_path, shell_line

_OPEN = {FELL_BACK.code, MODULE_NOT_CONVERTED.code}
"""Warnings that a verdict names: a part of the script was not tried on the NPU."""
ROOMS = {"1": "conversion", "2": "support", "3": "accuracy", "4": "performance", "9": "run"}
"""First digit of a rule's code to the part of the page its findings belong to."""


def room_of(finding: Finding) -> str:
    """Return the part of the page a finding belongs to."""
    return ROOMS.get(finding.code[2], "run")


def of_room(findings: Sequence[Finding], room: str) -> list[Finding]:
    """Return the findings of one part of the page, most severe first."""
    return sorted((f for f in findings if room_of(f) == room), key=lambda f: -f.severity)


def verdict(result: PortResult) -> Verdict:
    """Return the page's verdict."""
    status, headline = _answer(result)
    return Verdict(status=status, headline=headline, details=_details(result))


def _answer(result: PortResult) -> tuple[Status, str]:
    name = result.options.script.name
    failed = result.failed
    if failed is not None:
        place = "on the reference device" if failed is result.reference else "on the NPU"
        return "failed", f"{name} stopped {place} after {_steps(failed.num_steps)}: {failed.last_line()}"
    comparison = result.comparison
    if comparison is None or result.target is None:
        return "failed", f"{name} ran, but left nothing that can be compared."
    if result.unused:
        return "failed", f"{name} did not run on the NPU: {result.unused.message}. {result.unused.action}"
    other = _first_of(result, OTHER_NUMBER_OF_DEVICES.code)
    if comparison.status == "incomparable" or (other is not None and comparison.status != "agree"):
        reason = f"{other.message}. {other.action}" if other is not None else _first(result, "accuracy")
        return "attention", f"{name} runs on the NPU, but the two runs cannot be compared: {reason}"
    if comparison.status in {"diverge", "differ"}:
        return "attention", f"{name} runs on the NPU, but its results differ from the reference: {_divergence(result)}"
    return _of_agreement(result, comparison)


def _of_agreement(result: PortResult, comparison: Comparison) -> tuple[Status, str]:
    """Return the answer for runs that agree: what was compared, and what stays open."""
    name = result.options.script.name
    losses = compared_losses(comparison)
    coverage = f"{_on_npu(result)} ran on the NPU, every compared operator within tolerance"
    if not losses or not comparison.steps:
        return "attention", f"{name} runs on the NPU, but no training was compared: {_no_training(result)}. {coverage}."
    over = f"{_steps(len(comparison.steps))} and {counted(losses, 'loss', 'losses')} compared, {coverage}"
    open_points = [f for f in result.findings if f.severity >= Severity.ERROR or f.code in _OPEN]
    if open_points:
        return "attention", f"{name} trains on the NPU ({over}). Open point: {open_points[0].message.rstrip('.')}."
    return "fine", f"{name} trains on the NPU as on the reference: {over}."


def _on_npu(result: PortResult) -> str:
    """Return how many operator calls ran on the NPU: `105 of 120 operator calls`."""
    coverage = result.target.coverage if result.target is not None else None
    if coverage is None:
        return "an unknown number of operator calls"
    return f"{coverage.num_on_device:,} of {counted(coverage.num_calls, 'operator call')}"


def _no_training(result: PortResult) -> str:
    found = _first_of(result, NO_TRAINING_COMPARED.code)
    return found.message if found else "the two runs have no loss that agrees"


def _first_of(result: PortResult, code: str) -> Finding | None:
    return next((finding for finding in result.findings if finding.code == code), None)


def _details(result: PortResult) -> list[str]:
    details = []
    if result.conversion is not None:
        left = [f for f in of_room(result.findings, "conversion") if f.severity >= Severity.WARNING]
        details.append(
            f"Conversion: {_converted(result)} of {counted(len(result.conversion.files), 'file')}; "
            f"{counted(len(left), 'place')} left for you to look at."
        )
    if result.executed is not None:
        details.append(f"Of what ran: {result.executed.verdict}")
    details += _losses(result)
    devices = [run.recording.info.device for run in result.runs if run.recording]
    if devices:
        details.append("Devices: " + " against ".join(devices) + ".")
    return details


def _converted(result: PortResult) -> str:
    assert result.sources is not None
    earlier = len(result.sources.earlier)
    return f"{result.sources.num_converted} converted" + (f" ({earlier} before this port)" if earlier else "")


def _losses(result: PortResult) -> list[str]:
    """Return the sentence about the losses of both runs, when both have some."""
    if result.reference is None or result.target is None:
        return []
    other = dict(result.target.losses)
    pairs = [(step, loss, other[step]) for step, loss in result.reference.losses if step in other]
    if not pairs:
        return []
    step, reference, target = max(pairs, key=lambda pair: abs(pair[1] - pair[2]))
    first, last = pairs[0], pairs[-1]
    course = f"Loss on the reference {first[1]:.6g} at step {first[0]}, {last[1]:.6g} at step {last[0]}"
    if reference == target:
        return [f"{course}; the NPU's is bit for bit the same."]
    return [f"{course}; the NPU's differs most at step {step}: {target:.6g} against {reference:.6g}."]


def actions(result: PortResult) -> list[Action]:
    """Return what to do next, most useful first."""
    steps: list[Action] = []
    failed = result.failed
    if failed is not None:
        steps.append(
            Action(
                title="Mend the error",
                detail=failed.last_line(),
                command=shlex.join(["tail", "-n", "40", str(failed.log)]),
            )
        )
    for finding in of_room(result.findings, "accuracy")[:1]:
        if finding.code == "JM301":
            steps.append(_first_divergence(result, finding))
        elif finding.severity >= Severity.WARNING:
            steps.append(_action(finding))
    steps += [_action(f) for f in of_room(result.findings, "support")[:2] if f.severity >= Severity.WARNING]
    left = [f for f in of_room(result.findings, "conversion") if f.severity >= Severity.WARNING]
    if left:
        steps.append(
            Action(title=f"Look at {counted(len(left), 'place')} the conversion left alone", detail=_places(left))
        )
    if result.ran and not result.unused and result.conversion is not None and result.conversion.changed:
        steps.append(_apply(result, result.conversion.root))
    if result.ran and not result.unused and _is_emulated(result):
        steps.append(_on_real_npu(result))
    steps += [_action(f) for f in of_room(result.findings, "performance")[:1] if f.severity >= Severity.ADVICE]
    return steps


def _action(finding: Finding) -> Action:
    where = str(finding.where)
    return Action(title=_sentence(finding), detail=f"{where}. {finding.action}".strip(". "))


def _first_divergence(result: PortResult, finding: Finding) -> Action:
    where = finding.where
    return Action(
        title=f"Look at {where.operator} in {where.module_path or 'the script'}, the first operator that differs",
        detail=f"{where}. {finding.action}",
        command=_again(result, values="tensors"),
    )


def _sentence(finding: Finding) -> str:
    """Return the message with a capital letter, unless it starts with a name."""
    first_word = finding.message.split(" ", 1)[0]
    is_word = first_word.isalpha() and first_word.islower()
    return finding.message[:1].upper() + finding.message[1:] if is_word else finding.message


def _apply(result: PortResult, root: Path) -> Action:
    return Action(
        title="Take the conversion over",
        detail=f"The patch changes files under {root}; your own files are untouched until you do.",
        command=git_apply(root, result.layout.patch),
    )


def _is_emulated(result: PortResult) -> bool:
    recording = result.target.recording if result.target is not None else None
    return recording is None or "(" in recording.info.device


def _on_real_npu(result: PortResult) -> Action:
    return Action(
        title="Repeat it on a machine with the NPU",
        detail="With torch_npu installed the same command uses the real device, before and after the patch.",
        command=_again(result),
    )


def _again(result: PortResult, **changed: str) -> str:
    """Return the command line of this port, with the options that are not at their defaults and those changed."""
    given = result.options
    values = {
        field.name: changed.get(field.name, getattr(given, field.name))
        for field in fields(PortOptions)
        if field.name not in {"script", "arguments", "program", "force"}
    }
    defaults = {field.name: field.default for field in fields(PortOptions)}
    words = ["jumar", "port", "--force"]
    for name, value in values.items():
        if value != defaults[name] or name in ("steps", "soc"):
            words += [f"--{name.replace('_', '-')}", str(value)]
    if given.program is not None:
        return shell_line([*words, *given.program.shown], module_path())
    words.append(str(given.script))
    return shell_line([*words, "--", *given.arguments] if given.arguments else words, module_path())


def _divergence(result: PortResult) -> str:
    assert result.comparison is not None
    first = result.comparison.first_divergence
    finding = next((f for f in result.comparison.findings if f.where.operator and first is not None), None)
    return finding.message if finding else _first(result, "accuracy")


def _first(result: PortResult, room: str) -> str:
    found = of_room(result.findings, room)
    return found[0].message if found else "see the findings below"


def _places(findings: Sequence[Finding]) -> str:
    return "; ".join(f"{f.where}: {f.message.rstrip('.')}" for f in findings[:3]) + ("; …" if len(findings) > 3 else "")


def _steps(number: int) -> str:
    return counted(number, "step")
