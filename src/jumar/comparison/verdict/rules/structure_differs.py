"""JM311 structure-differs.

## What it does
Names the calls that the two runs do not have in common, place by place, with the source lines of both
sides: operators inserted or removed, modules that one side has or calls another number of times,
operators in another order, and calculations made with other operators (an attention kernel against its
parts, a linear layer against product and sum, a fused optimizer). Of the latter, the result is compared
as the next call reads it. Equal differences of many layers or parameters are one finding.

## Why it matters
A call without a partner was not compared. Where the two programs differ on purpose this is expected;
where not, it is often the cause itself: a scale that was added, a dropout that was left out, a layer
too many.

## Example
```text
only the target runs aten::mul.Tensor in blocks.1 (model.py:62), forward, at 1 place
```

## Use instead
Make both programs run the same calculation, or accept the difference; the first divergence (JM301)
says whether it changes numbers.

## Fix safety
No edit is made.

## References
PyTorch documentation, list of operators by back end (which back end fuses which calls).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from jumar.base.findings import Finding, Json, Location, Severity
from jumar.base.rules import Rule
from jumar.base.text import counted, listing
from jumar.comparison.model.correspondence import StructuralDiff
from jumar.comparison.model.results import UnmatchedCall
from jumar.comparison.walk.evidence import Evidenced
from jumar.recording.schema import split_source

RULE = Rule(
    code="JM311",
    name="structure-differs",
    summary="The two runs make different calls at some places: inserted, removed, replaced, moved or repeated ones.",
    severity=Severity.WARNING,
    doc=__doc__,
)

MAX_FINDINGS = 12
SHOWN = 4


def find(found: Evidenced) -> list[Finding]:
    """Return one finding for each difference, those that were not compared first."""
    diffs = found.correspondence.structure
    first_step = min((diff.step for diff in diffs), default=0)
    diffs = sorted((diff for diff in diffs if diff.step == first_step), key=lambda diff: diff.compared)
    findings = [_finding(diff) for diff in diffs[:MAX_FINDINGS]]
    if len(diffs) > MAX_FINDINGS:
        findings.append(
            RULE.finding(
                f"{len(diffs) - MAX_FINDINGS} more places at which the runs make different calls are not listed.",
                evidence={"num_differences": len(diffs)},
                severity=Severity.INFO,
            )
        )
    return findings


def _finding(diff: StructuralDiff) -> Finding:
    calls = diff.target or diff.reference
    path, line = split_source(calls[0].source) if calls else (None, None)
    return RULE.finding(
        sentence(diff),
        where=Location(
            path=path,
            line=line,
            module_path=diff.module_path,
            operator=calls[0].name if calls else None,
            phase=diff.phase,
            step=diff.step,
            rank=diff.rank,
        ),
        evidence={
            "kind": diff.kind,
            "compared": diff.compared,
            "explained": diff.explained,
            "num_places": diff.num_places,
            "reference": _json(diff.reference),
            "target": _json(diff.target),
        },
        why="" if diff.compared or diff.explained else "Calls without a partner were not compared, so they may differ.",
        severity=Severity.INFO if diff.compared or diff.explained else Severity.WARNING,
    )


def sentence(diff: StructuralDiff) -> str:
    """Return a difference in one sentence."""
    where = f"{diff.module_path or 'the main program'}, {diff.phase} of step {diff.step}"
    where += f" on rank {diff.rank}" if diff.rank else ""
    places = f", and so at {diff.num_places} places" if diff.num_places > 1 else ""
    reference, target = _calls(diff.reference), _calls(diff.target)
    if diff.kind == "repeated":
        return (
            f"{diff.module_path} is called {counted(diff.num_reference, 'time')} in the reference and "
            f"{counted(diff.num_target, 'time')} in the target; the calls from its start on are compared."
        )
    if diff.kind in {"inserted modules", "removed modules"}:
        side = "target" if diff.kind == "inserted modules" else "reference"
        return f"Only the {side} has the module {diff.module_path} ({reference or target}){places}."
    if diff.kind == "replaced":
        return (
            f"In {where}, the reference runs {reference} and the target {target}: only the result is compared{places}."
        )
    if diff.kind == "moved":
        return f"In {where}, {reference} of the reference is at another place in the target ({target}){places}."
    side = "target" if diff.kind == "inserted" else "reference"
    why = f"; explained: each {diff.explained}" if diff.explained else ""
    return f"Only the {side} runs {reference or target} in {where}{places}{why}."


def _calls(calls: Sequence[UnmatchedCall]) -> str:
    """Return `aten::mul.Tensor (model.py:62)`, or a few names with their numbers and the first line."""
    if not calls:
        return ""
    counts = Counter(call.name for call in calls)
    shown = listing((name if times == 1 else f"{name} ×{times}" for name, times in counts.items()), SHOWN)
    source = next((call.source for call in calls if call.source), "")
    return f"{shown}{f' ({source})' if source else ''}"


def _json(calls: Sequence[UnmatchedCall]) -> Json:
    return [
        {"name": call.name, "module_path": call.module_path, "seq": call.seq, "source": call.source} for call in calls
    ]
