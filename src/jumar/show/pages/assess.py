"""Assessments in the terminal: what a program needs of the NPU, and what of torch_npu the emulated NPU has."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from jumar.base.findings import Finding, Severity
from jumar.base.text import counted, listing
from jumar.base.text.language import translate
from jumar.show.terminal.tell import tell

if TYPE_CHECKING:
    from jumar.convert.assess import Assessment, EmulatorCoverage, GroupCoverage

MAX_FINDINGS = 8
"""Findings that are printed: with their places and actions they fill about one screen."""
MAX_PLACES = 3
INDENT = " " * 15
COLOURS = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.ADVICE: "cyan", Severity.INFO: "blue"}


def print_coverage(coverage: EmulatorCoverage) -> None:
    """Print what of torch_npu the emulated NPU has: a table by group."""
    tell(
        f"The emulated NPU has {coverage.total.num_working} of {coverage.total.num_names} public names of torch_npu "
        f"{coverage.torch_npu_version} ({coverage.total.percent:.1f} %).",
        bold=True,
    )
    tell("The others resolve, and raise NotImplementedError when they are used.\n")
    width = max(len(group.group) for group in (*coverage.api, coverage.custom))
    click.secho(f"{'group':<{width}}{'names':>8}{'working':>9}{'refused':>9}{'percent':>9}", dim=True)
    for group in (*coverage.api, coverage.total):
        click.echo(_coverage_row(group, width))
    click.echo(f"\n{_coverage_row(coverage.custom, width)}   every operator of that namespace")
    others = ", ".join(f"{number} of the {name}" for name, number in coverage.num_unreachable.items())
    tell(f"\nNot counted, because Python does not reach them: {others}.", dim=True)
    tell("--json names everything that is refused, and what comes near it.", dim=True)


def _coverage_row(group: GroupCoverage, width: int) -> str:
    return (
        f"{group.group:<{width}}{group.num_names:>8}{group.num_working:>9}{len(group.refused):>9}{group.percent:>9.1f}"
    )


def coverage_document(coverage: EmulatorCoverage) -> dict[str, object]:
    """Return what of torch_npu the emulated NPU has and lacks, for JSON."""

    def entry(group: GroupCoverage) -> dict[str, object]:
        return {
            "group": group.group,
            "num_names": group.num_names,
            "num_working": group.num_working,
            "percent": round(group.percent, 1),
            "refused": [{"name": item.name, "nearest": item.nearest} for item in group.refused],
        }

    return {
        "torch_npu_version": coverage.torch_npu_version,
        "num_names": coverage.total.num_names,
        "num_working": coverage.total.num_working,
        "percent": round(coverage.total.percent, 1),
        "groups": [entry(group) for group in coverage.api],
        "custom_operators": entry(coverage.custom),
        "num_unreachable": dict(coverage.num_unreachable),
    }


def print_assessment(assessment: Assessment) -> None:
    """Print the verdict, then what needs attention with its places, then what was not seen: about one screen."""
    tell(assessment.verdict, bold=True)
    tell(f"{assessment.subject}, PyTorch and torch_npu {assessment.torch_version} ({assessment.release_origin})")
    for finding in assessment.findings[:MAX_FINDINGS]:
        click.echo()
        label = click.style(f"{finding.severity.label:<8}", fg=COLOURS[finding.severity])
        click.echo(f"{label}{finding.code}  {translate(finding.message)}")
        click.echo(f"{INDENT}{_places(finding)}")
        click.echo(f"{INDENT}→ {translate(finding.action)}")
    hidden = len(assessment.findings) - MAX_FINDINGS
    if hidden > 0:
        tell(f"\n{counted(hidden, 'more finding')}: --json prints all of them.")
    click.echo()
    for note in assessment.notes:
        tell(note, dim=True)


def _places(finding: Finding) -> str:
    """Return the first places of a finding on one line."""
    known = finding.evidence.get("places")
    places = [str(place) for place in known] if isinstance(known, list) else [str(finding.where)]
    return listing(places, MAX_PLACES)
