"""The report of a map of names as lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import click

from jumar.base.text import counted

if TYPE_CHECKING:
    from jumar.export.mapping.run import MapReport

_MOST = 12
"""So many names of a list are shown; the map file has all."""


def print_map(report: MapReport) -> None:
    """Print a map's report."""
    lines = map_lines(report)
    click.secho(lines[0], bold=True)
    for line in lines[1:]:
        click.echo(f"  {line}")


def map_lines(report: MapReport) -> list[str]:
    """Return the lines of a map's report, the headline first."""
    return list(_lines(report))


def _lines(report: MapReport) -> Iterator[str]:
    guessed = f"{report.num_guessed} guessed" + (" (look at them)" if report.num_guessed else "")
    yield (
        f"{report.num_matched} of {counted(report.num_targets, 'tensor')} of {report.target} matched, {guessed}, "
        f"{report.num_left} left over."
    )
    yield _verified(report)
    yield from _listed("guessed", {name: f": {why}" for name, why in report.guesses.items()})
    yield from _listed("left over in the target, which keeps its own values", _near(report.missing))
    yield from _listed("left over in the source, not taken", _near(report.unused))
    if report.num_converted:
        yield f"{counted(report.num_converted, 'tensor')} got the target's dtype"
    if report.map_file is not None:
        yield f"map: {report.map_file}" + (" (taken as edited)" if report.is_edited else "")
    if report.written is not None:
        yield f"wrote {report.written}, read back"


def _verified(report: MapReport) -> str:
    found = report.verification
    if found.not_verified:
        return f"Not verified by running: {found.not_verified}."
    each = ", ".join(f"output {one.output} {one.shape}: {one.greatest_absolute:.3g}" for one in found.differences)
    verdict = "agree" if found.agrees else "DIFFER"
    remark = f" ({found.remark})" if found.remark else ""
    return f"Both models were run on the example inputs and {verdict}; greatest difference, {each}{remark}."


def _near(names: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    return {name: f" (nearest: {', '.join(near)})" if near else "" for name, near in names.items()}


def _listed(title: str, names: Mapping[str, str]) -> Iterator[str]:
    if not names:
        return
    yield f"{title}:"
    for name in list(names)[:_MOST]:
        yield f"  {name}{names[name]}"
    if len(names) > _MOST:
        yield f"  and {len(names) - _MOST} more, see the map file (-o FILE)"
