"""`jumar convert --check` in the terminal and as JSON: which uses of CUDA are new, and which are gone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from jumar.base.text import counted
from jumar.show.convert.result import not_converted
from jumar.show.terminal.tell import tell

if TYPE_CHECKING:
    from jumar.convert import Conversion
    from jumar.convert.reports.baseline import Comparison, Use
    from jumar.show.convert.request import Request

_MOST_GONE = 10


def tell_check(comparison: Comparison, conversions: Sequence[Conversion], request: Request) -> None:
    """Print the uses of CUDA that are new, those that are gone, and what to do."""
    from jumar.show import print_findings

    num_new, num_gone = sum(comparison.new.values()), sum(comparison.gone.values())
    tell(
        f"{counted(num_new, 'new use')} of CUDA in {counted(_num_files(conversions), 'file')}"
        f" ({comparison.num_known:,} known)."
    )
    for conversion in conversions:
        for line in not_converted(conversion):
            tell(line)
    if comparison.findings:
        click.echo()
        print_findings(comparison.findings, title="New")
        tell(_what_next(request))
    if num_gone:
        tell(f"\n{counted(num_gone, 'known use')} gone, which is an improvement:")
        _print_gone(comparison, most=len(comparison.gone) if request.verbose else _MOST_GONE)
        tell("--write-baseline keeps it so.")


def _num_files(conversions: Sequence[Conversion]) -> int:
    return sum(len(conversion.files) for conversion in conversions)


def _what_next(request: Request) -> str:
    if request.baseline is None:
        return "\n--baseline FILE --write-baseline makes these the known ones."
    return "\nRemove them, mark a line with `# jumar: ignore`, or accept them with --write-baseline."


def _print_gone(comparison: Comparison, most: int) -> None:
    uses: Sequence[Use] = sorted(comparison.gone)
    for use in uses[:most]:
        times = f" ({comparison.gone[use]} times)" if comparison.gone[use] > 1 else ""
        click.echo(f"  {use.code}  {use.path}: {use.line}{times}")
    if len(uses) > most:
        tell(f"  … and {len(uses) - most} more; --verbose shows all")


def check_document(comparison: Comparison, conversions: Sequence[Conversion]) -> dict[str, Any]:
    """Return what a check found, for JSON."""
    return {
        "findings": comparison.findings,
        "num_files": _num_files(conversions),
        "num_known": comparison.num_known,
        "num_new": sum(comparison.new.values()),
        "num_gone": sum(comparison.gone.values()),
        "new": [_entry(use, comparison.new[use]) for use in sorted(comparison.new)],
        "gone": [_entry(use, comparison.gone[use]) for use in sorted(comparison.gone)],
    }


def _entry(use: Use, count: int) -> dict[str, object]:
    return {"code": use.code, "path": use.path, "line": use.line, "count": count}
