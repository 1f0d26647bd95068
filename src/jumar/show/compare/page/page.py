"""The page of `jumar compare`: the answer, what to do, then the way to it and the evidence."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from jumar.base.findings import Finding, Severity
from jumar.comparison import Comparison
from jumar.comparison.diagnosis import Diagnosis, SecondPass
from jumar.comparison.model.words import told_once
from jumar.comparison.replay import Replayed
from jumar.recording.reader import RecordingLike
from jumar.show.blocks.findings import finding_list
from jumar.show.blocks.page import Action, Page, Section, Status, Verdict
from jumar.show.compare.page.about import ABOUT, about, decision, hypothesis_list, left_out, settings
from jumar.show.compare.page.divergence import divergence
from jumar.show.compare.page.evidence import losses, modules, operators, unmatched

MAX_ACTIONS = 4
STATUS: dict[str, Status] = {"agree": "fine", "differ": "attention", "incomparable": "attention", "diverge": "failed"}
SHOWN_ELSEWHERE = frozenset({"JM340", "JM341"})


def compare_page(
    comparison: Comparison,
    *,
    diagnosis: Diagnosis | None = None,
    recordings: tuple[RecordingLike, RecordingLike] | None = None,
    replayed: Sequence[Replayed] = (),
    second_pass: SecondPass | None = None,
) -> Page:
    """Return the page for `comparison`; sections without content are left out.

    `recordings` (reference, target) give pictures of the tensors, settings and lines of the sources, `replayed` the
    three numbers of the suspects, `second_pass` the commands that record their tensors.
    """
    sections = [
        divergence(comparison, recordings, replayed),
        hypothesis_list(diagnosis),
        decision(diagnosis),
        losses(comparison, diagnosis),
        modules(comparison),
        _findings(comparison),
        operators(comparison),
        unmatched(comparison),
        settings(recordings),
        left_out(comparison, diagnosis),
        about(comparison),
    ]
    return Page(
        title="Accuracy of two runs",
        verdict=Verdict(
            status=STATUS[comparison.status], headline=comparison.headline, details=_details(comparison, diagnosis)
        ),
        actions=[*_actions(comparison.findings, second_pass), *_repro(comparison, diagnosis)],
        sections=[section for section in sections if section is not None],
        footer=ABOUT[comparison.evidence].replace("`", ""),
    )


def _details(comparison: Comparison, diagnosis: Diagnosis | None) -> list[str]:
    counts = ", ".join(f"{count:,} {status}" for status, count in comparison.num_operators.items())
    details = [f"Operator calls compared in {_steps(comparison.steps)}: {counts}."] if counts else []
    decisive = comparison.findings[0].message if comparison.findings else ""
    if decisive and comparison.status != "agree" and decisive not in comparison.headline:
        details.insert(0, told_once(decisive, comparison.headline))
    if diagnosis is not None and comparison.status == "diverge":
        best = next((one for one in diagnosis.suspicions if one.seen_in != "arguments"), None)
        if best is not None:
            details.insert(1, f"{best.hypothesis.confidence.capitalize()}: {best.hypothesis.statement}")
    if comparison.evidence != "tensors" and counts:
        details.append(ABOUT[comparison.evidence].replace("`", ""))
    return details


def _steps(steps: Sequence[int]) -> str:
    ordered = sorted(set(steps))
    listed = ", ".join(map(str, ordered)) if len(ordered) <= 8 else f"{ordered[0]} to {ordered[-1]}"
    return f"step{'s' if len(ordered) != 1 else ''} {listed}"


def _actions(findings: Sequence[Finding], second_pass: SecondPass | None) -> list[Action]:
    worth = [finding for finding in findings if finding.action and finding.severity >= Severity.WARNING]
    if second_pass is not None:  # the commands below do just that, for less
        worth = [finding for finding in worth if "--values tensors" not in finding.action]
    actions = [
        Action(title=finding.action, detail=str(finding.where), command=f"jumar rule {finding.code}")
        for finding in worth[:MAX_ACTIONS]
    ]
    if second_pass is not None:
        for side, command in (("reference", second_pass.reference), ("target", second_pass.target)):
            detail = f"Step {second_pass.step} only; then compare the two new recordings."
            actions.append(Action(title=f"Record the suspects' whole tensors: {side}", detail=detail, command=command))
    return actions


def _repro(comparison: Comparison, diagnosis: Diagnosis | None) -> list[Action]:
    """Return the command that makes a script of the first divergence, where its tensors were recorded."""
    if diagnosis is None or comparison.evidence != "tensors" or not comparison.first_divergence:
        return []
    keys = [suspect.key for suspect in diagnosis.suspects if suspect.role == "first divergence"]
    if not keys or not keys[-1].startswith("op/"):
        return []
    parts = ["jumar", "repro", comparison.target.path, keys[-1], "--against", comparison.reference.path]
    title = "Write the operator as a script of its own, with its tensors"
    return [Action(title=title, detail="It runs on any device, without the model.", command=shlex.join(parts))]


def _findings(comparison: Comparison) -> Section:
    shown = [finding for finding in comparison.findings if finding.code not in SHOWN_ELSEWHERE]
    found = finding_list(shown, empty="No finding.")
    return Section(title="Accuracy findings", blocks=[found])
