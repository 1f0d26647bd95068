"""`msFmkTranspltlog.txt`: the options, what was done in each file, and what could not be done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from jumar.base.findings import Finding, Severity
from jumar.base.rules import Rule
from jumar.base.text import counted
from jumar.convert.engine.project import Conversion
from jumar.convert.model.outcome import Failure, Outcome

_RULER = "-" * 78


def log(conversion: Conversion, head: Mapping[str, str], rules: Iterable[Rule], notes: Sequence[str] = ()) -> str:
    """Return the log: `head` (what was asked for, with which versions) first, `notes` (other reports) last."""
    names = {rule.code: rule.name for rule in rules}
    width = max((len(name) for name in head), default=0)
    lines = [
        "Jumar conversion log",
        _RULER,
        *(f"{name:<{width}}  {text}" for name, text in head.items()),
        "",
        *_totals(conversion),
        "",
        "By rule (converted, left):",
        *_by_rule(conversion.findings, names),
    ]
    lines += ["", "By file:", *_by_file(conversion)]
    if conversion.failures:
        lines += [
            "",
            "Could not be read, and stayed as they were:",
            *(f"  {item.error}" for item in conversion.failures),
        ]
    if notes:
        lines += ["", *notes]
    return "\n".join(lines) + "\n"


def _totals(conversion: Conversion) -> Iterator[str]:
    counts = Counter(finding.severity for finding in conversion.findings if not finding.evidence.get("applied"))
    left = ", ".join(f"{counts[level]} {level.label}" for level in sorted(counts, reverse=True))
    changed, failed = len(conversion.changed), len(conversion.failures)
    yield f"{counted(len(conversion.files), 'file')} read: {changed} changed, {failed} could not be read."
    yield f"{counted(len(conversion.others), 'other file')} copied."
    yield f"{counted(conversion.num_edits, 'edit')} made. Left: {left or 'nothing'}."


def _by_rule(findings: Iterable[Finding], names: Mapping[str, str]) -> Iterator[str]:
    made: Counter[str] = Counter()
    left: Counter[str] = Counter()
    for finding in findings:
        (made if finding.evidence.get("applied") else left)[finding.code] += 1
    for code in sorted(made.keys() | left.keys()):
        yield f"  {code}  {names.get(code, ''):<32} {made[code]:>6} {left[code]:>6}"


def _by_file(conversion: Conversion) -> Iterator[str]:
    for outcome in conversion.files:
        if outcome.findings or outcome.changed or isinstance(outcome, Failure):
            yield ""
            yield f"  {outcome.path}: {_became(outcome)}"
            yield from (f"    {_line(finding)}" for finding in outcome.findings)


def _became(outcome: Outcome) -> str:
    if isinstance(outcome, Failure):
        return "could not be read"
    return counted(outcome.num_edits, "edit") if outcome.changed else "unchanged"


def _line(finding: Finding) -> str:
    where = f"{finding.where.line or '-'}:{finding.where.column or '-'}"
    state = "converted" if finding.evidence.get("applied") else "note" if finding.severity is Severity.INFO else "left"
    if finding.severity > Severity.INFO:
        state += f" ({finding.severity.label})"
    action = f" {finding.action}" if finding.action else ""
    return " ".join(f"{where:<9} {finding.code} {state}: {finding.message}{action}".split("\n"))
