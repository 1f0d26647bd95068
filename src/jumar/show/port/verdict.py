"""The answer of `jumar port` in one sentence, the figures behind it, and what to do next."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from jumar.base.findings import Finding, Severity
from jumar.base.text import counted
from jumar.port.result import PortResult
from jumar.show.blocks.page import Action, Status, Verdict

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
    steps = _steps(result.target.num_steps)
    if comparison.status == "diverge":
        return "attention", f"{name} runs on the NPU, but its results differ from the reference: {_divergence(result)}"
    if comparison.status == "incomparable":
        return "attention", f"{name} runs on the NPU, but the two runs cannot be compared: {_first(result, 'accuracy')}"
    errors = [f for f in result.findings if f.severity >= Severity.ERROR]
    if errors:
        return (
            "attention",
            f"{name} trains on the NPU as on the reference over {steps}. Open point: {errors[0].message.rstrip('.')}.",
        )
    return "fine", f"{name} trains on the NPU as on the reference: {steps}, every compared operator within tolerance."


def _details(result: PortResult) -> list[str]:
    details = []
    if result.conversion is not None:
        left = [f for f in of_room(result.findings, "conversion") if f.severity >= Severity.WARNING]
        details.append(
            f"Conversion: {counted(len(result.conversion.changed), 'file')} of {len(result.conversion.files)} changed; "
            f"{counted(len(left), 'place')} left for you to look at."
        )
    if result.executed is not None:
        details.append(f"Of what ran: {result.executed.verdict}")
    details += _losses(result)
    devices = [run.recording.info.device for run in result.runs if run.recording]
    if devices:
        details.append("Devices: " + " against ".join(devices) + ".")
    return details


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
        steps.append(Action(title="Mend the error", detail=failed.last_line(), command=f"less {failed.log}"))
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
    if result.ran:
        steps.append(_apply(result))
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
        command=_again(result, "--force", "--values", "tensors"),
    )


def _sentence(finding: Finding) -> str:
    """Return the message with a capital letter, unless it starts with a name."""
    first_word = finding.message.split(" ", 1)[0]
    is_word = first_word.isalpha() and first_word.islower()
    return finding.message[:1].upper() + finding.message[1:] if is_word else finding.message


def _apply(result: PortResult) -> Action:
    folder = shlex.quote(str(result.options.script.resolve().parent))
    patch = shlex.quote(str(result.layout.patch.resolve()))
    return Action(
        title="Take the conversion over",
        detail="The patch applies to the script's folder; your own files are untouched until you do.",
        command=f"cd {folder} && git apply {patch}",
    )


def _on_real_npu(result: PortResult) -> Action:
    return Action(
        title="Repeat it on a machine with the NPU",
        detail="With torch_npu installed the same command uses the real device.",
        command=_again(result),
    )


def _again(result: PortResult, *options: str) -> str:
    """Return the command line of this port, with further options."""
    given = result.options
    words = ["jumar", "port", *options, "--soc", given.soc, "--steps", str(given.steps), str(given.script)]
    return shlex.join([*words, "--", *given.arguments] if given.arguments else words)


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
