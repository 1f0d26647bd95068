"""## What it does
Looks at the result of a conversion once more, token by token, and reports each place that may still mean CUDA and
that no other rule changed or named: `.cuda()` and `.is_cuda` of any object, `torch.cuda`, the string `'cuda'`, a
string that holds such code (for `exec` or `timeit`). Cython sources and templates, which no rule reads, are looked at
in the same way.

## Why it matters
"Nothing is left for you" is said only where this scan finds nothing. A `.cuda()` that stays without a word is the
first error on the NPU.

## Example
```python
exec("x = x.cuda()")
```

## Use instead
```python
exec("x = x.npu()")
```

## Fix safety
No fix.

## References
- jumar docs guide-convert
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Set

from jumar.base.findings import Finding, Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal, Replacement, to_finding
from jumar.convert.model.spans import Span
from jumar.convert.model.text import SourceText
from jumar.convert.syntax.residue import Residue

RULE = Rule(
    code="JM197",
    name="cuda-unresolved",
    summary="A place may still mean CUDA, and no other rule changed or named it.",
    severity=Severity.WARNING,
    doc=__doc__,
)

_SUMMARY = "JM114"
"""The rule that sums up names and strings that stay; its notes explain strings, not calls."""
_USERS = "JM195"
"""The rule of the user's own rules: what one of them wrote is meant."""
_WHAT = {
    "method": "is CUDA's method or property",
    "name": "is a name of CUDA",
    "word": "may be a device",
    "code": "holds code that speaks of CUDA",
}


def unresolved(
    text: SourceText,
    path: str,
    residues: Iterable[Residue],
    edits: Iterable[Replacement],
    findings: Iterable[Finding],
    closed: Iterable[Span] = (),
    silences: Callable[[Proposal], bool] = lambda _proposal: False,
    silenced: Set[int] = frozenset(),
) -> Iterator[Finding]:
    """Yield a finding for each residue of the result, located in the source, that nothing explains.

    `residues` count the characters of the result, `edits` (sorted) lead from it back to the source `text`. What
    explains a residue is a finding on its line that changed nothing, a place that rules `closed`, a line on which a
    comment `silenced` other rules, or a comment that `silences` this one.
    """
    named, summed = _explained(findings)
    places = list(closed)
    back = list(edits)
    seen: set[int] = set()
    for residue in residues:
        start = _origin(back, residue.start)
        if start is None or any(low <= start < high for low, high in places):
            continue
        line = text.position(start)[0]
        explained = line in named or line in silenced or (residue.kind == "word" and line in summed)
        if explained or line in seen:
            continue
        seen.add(line)
        proposal = _proposal(residue, start)
        if not silences(proposal):
            yield to_finding(proposal, text, path, applied=False)


def _proposal(residue: Residue, start: int) -> Proposal:
    return Proposal(
        rule=RULE,
        span=(start, start + residue.end - residue.start),
        severity=Severity.ADVICE if residue.kind == "word" else None,
        confidence="likely" if residue.kind != "word" else "possible",
        message=f"`{residue.text}` {_WHAT[residue.kind]}, and no rule resolved it.",
        action="If it means the accelerator, write it for the new device by hand.",
    )


def _explained(findings: Iterable[Finding]) -> tuple[set[int], set[int]]:
    """Return the lines that findings without an edit name, and those that the summary of words names."""
    named: set[int] = set()
    summed: set[int] = set()
    for finding in findings:
        if (finding.evidence.get("applied") and finding.code != _USERS) or finding.where.line is None:
            continue
        is_summary = finding.code == _SUMMARY and finding.severity is Severity.INFO
        lines = set(range(finding.where.line, (finding.where.end_line or finding.where.line) + 1))
        told = finding.evidence.get("lines")
        lines |= {line for line in told if isinstance(line, int)} if isinstance(told, list) else set()
        (summed if is_summary else named).update(lines)
    return named, summed


def _origin(edits: list[Replacement], offset: int) -> int | None:
    """Return where in the source a character of the result stands, None for one that an edit wrote."""
    moved = 0
    for edit in edits:
        if offset < edit.start + moved:
            break
        if offset < edit.start + moved + len(edit.text):
            return None
        moved += len(edit.text) - (edit.end - edit.start)
    return offset - moved
