"""Which names of TensorFlow and Horovod the sources use, and what became of each: `apis`, and the workbook of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Literal

from jumar.base.findings import Finding, Severity
from jumar.convert.model.outcome import Failure, Outcome
from jumar.convert.reports.spreadsheet import Sheet, Value, workbook_bytes
from jumar.convert.rules.tensorflow.program.names import api, horovod, references
from jumar.convert.syntax.source import SourceError, parse

ApiStatus = Literal["no limit known", "changed by the tool", "needs work", "not supported"]
ORDER: tuple[ApiStatus, ...] = ("not supported", "needs work", "changed by the tool", "no limit known")
"""The worst first."""
_UNSUPPORTED = frozenset({"JM646", "JM658", "JM665", "JM666", "JM668"})
"""Rules that speak of what the adapter does not support."""
_COLUMNS = ("API", "Status", "File", "Line", "Rule", "What is said")
_WIDTHS = (44, 20, 36, 8, 10, 90)


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """One use of a name."""

    name: str
    """The public name, `tf.train.AdamOptimizer` or `hvd.rank`."""
    status: ApiStatus
    file: str
    line: int
    rule: str = ""
    said: str = ""


def apis(outcomes: Iterable[Outcome]) -> list[Api]:
    """Return every use of a name of TensorFlow or Horovod in the sources as they were, file by file."""
    found: list[Api] = []
    for outcome in outcomes:
        if isinstance(outcome, Failure) or not outcome.path.endswith((".py", ".pyw")):
            continue
        if b"tensorflow" in outcome.before or b"horovod" in outcome.before or b"tf_keras" in outcome.before:
            found += _of_file(outcome)
    return found


def _of_file(outcome: Outcome) -> list[Api]:
    try:
        source = parse(outcome.before, outcome.path)
    except SourceError:
        return []
    found = []
    for reference in references(source):
        public, ring = api(reference.name), horovod(reference.name)
        if public or ring:
            line, column = source.text.position(source.span(reference.node)[0])
            about = [each for each in outcome.findings if _is_about(each, line, column, public or ring or "")]
            found.append(_judged(f"tf.{public}" if public else f"hvd.{ring}", outcome.path, line, about))
    return found


def _is_about(finding: Finding, line: int, column: int, name: str) -> bool:
    """Tell whether a finding speaks of a name: it begins there, or sums up lines with such names."""
    names, lines = finding.evidence.get("names"), finding.evidence.get("lines")
    if isinstance(names, list):
        return isinstance(lines, list) and name in names and line in lines
    return (finding.where.line, finding.where.column) == (line, column)


def _judged(name: str, path: str, line: int, about: Sequence[Finding]) -> Api:
    """Judge a name by the findings that speak of it; of several the worst counts."""
    if not about:
        return Api(name=name, status="no limit known", file=path, line=line)
    worst = min(about, key=lambda each: ORDER.index(_status(each)))
    return Api(name=name, status=_status(worst), file=path, line=line, rule=worst.code, said=worst.message)


def _status(finding: Finding) -> ApiStatus:
    if finding.evidence.get("applied") and finding.severity < Severity.WARNING:
        return "changed by the tool"
    if finding.severity < Severity.ADVICE:
        return "no limit known"
    return "not supported" if finding.code in _UNSUPPORTED else "needs work"


def counts(rows: Iterable[Api]) -> Mapping[ApiStatus, int]:
    """Return how many uses have each status, the worst first."""
    found = Counter(row.status for row in rows)
    return {status: found[status] for status in ORDER if found[status]}


def workbook(rows: Sequence[Api], about: Mapping[str, str]) -> bytes:
    """Return the uses, the worst first, as an Excel workbook, with a second sheet that says how they came about."""
    worst = sorted(rows, key=lambda row: (ORDER.index(row.status), row.name, row.file, row.line))
    cells: list[list[Value]] = [[row.name, row.status, row.file, row.line, row.rule, row.said] for row in worst]
    table = Sheet(name="APIs", head=_COLUMNS, widths=_WIDTHS, rows=cells)
    return workbook_bytes([table, Sheet(name="About", widths=(24, 100), rows=list(about.items()))])


def document(rows: Sequence[Api]) -> dict[str, object]:
    """Return the uses for programs."""
    return {"counts": dict(counts(rows)), "apis": [asdict(row) for row in rows]}
