"""`jumar assess`: what a script, a folder or a recorded run needs, and what the NPU has."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from jumar.cli.options import DEFAULT_SOC, exit_code, fail_on_option, json_option
from jumar.errors import UsageError
from jumar.findings import Severity

if TYPE_CHECKING:
    from jumar.assess import Assessment, EmulatorCoverage, GroupCoverage
    from jumar.findings import Finding

MAX_FINDINGS = 8
"""Findings that are printed: with their places and actions they fill about one screen."""
MAX_PLACES = 3
INDENT = " " * 15
COLOURS = {
    Severity.ERROR: "red",
    Severity.WARNING: "yellow",
    Severity.ADVICE: "cyan",
    Severity.INFO: "blue",
}


@click.command()
@click.argument("path", type=click.Path(path_type=Path), required=False)
@click.option("--emulator", is_flag=True, help="Tell what of torch_npu the emulated NPU has; takes no PATH.")
@click.option(
    "--soc",
    default=None,
    metavar="SOC",
    help=f"The NPU's system on a chip.  [default: the recording's, else {DEFAULT_SOC}]",
)
@click.option(
    "--torch-version", default="2.13", show_default=True, metavar="VERSION", help="Version of PyTorch and torch_npu."
)
@json_option
@fail_on_option
def command(path: Path | None, emulator: bool, soc: str | None, torch_version: str, as_json: bool, fail_on: str) -> int:
    """Tell which PyTorch calls of PATH the NPU supports, which run on the host, and which fail.

    PATH is a script (the modules beside it that it imports are read too), a folder of sources, or a
    recording: then the operators that were really executed are assessed. Nothing is run.

    Example: jumar assess train.py --soc Ascend910B3
    """
    if emulator == (path is not None):
        raise UsageError("jumar assess takes either a PATH or --emulator; try jumar assess train.py.")
    if path is None:
        _emulator(as_json)
        return 0
    from jumar.recording.schema import RUN_FILE

    is_recording = (path / RUN_FILE).is_file()
    assessment = _of_recording(path, soc, torch_version) if is_recording else _of_source(path, soc, torch_version)
    if as_json:
        _print_json(assessment)
    else:
        _print_text(assessment)
    return exit_code(assessment.findings, fail_on)


def _of_recording(path: Path, soc: str | None, torch_version: str) -> Assessment:
    from jumar.assess import assess_recording

    return assess_recording(path, soc, torch_version)


def _of_source(path: Path, soc: str | None, torch_version: str) -> Assessment:
    from jumar.assess import assess_source
    from jumar.migrate import local_modules

    files = local_modules(path) if path.is_file() else path
    return assess_source(files, soc or DEFAULT_SOC, torch_version)


def _emulator(as_json: bool) -> None:
    """Print what of torch_npu the emulated NPU has: a table by group, or all of it as JSON."""
    from jumar.assess import assess_emulator

    coverage = assess_emulator()
    if as_json:
        from jumar.report import json_text

        click.echo(json_text(_coverage_document(coverage)), nl=False)
        return
    click.secho(
        f"The emulated NPU has {coverage.total.num_working} of {coverage.total.num_names} public names of torch_npu "
        f"{coverage.torch_npu_version} ({coverage.total.percent:.1f} %).",
        bold=True,
    )
    click.echo("The others resolve, and raise NotImplementedError when they are used.\n")
    width = max(len(group.group) for group in (*coverage.api, coverage.custom))
    click.secho(f"{'group':<{width}}{'names':>8}{'working':>9}{'refused':>9}{'percent':>9}", dim=True)
    for group in (*coverage.api, coverage.total):
        click.echo(_coverage_row(group, width))
    click.echo(f"\n{_coverage_row(coverage.custom, width)}   every operator of that namespace")
    beside = ", ".join(f"{number} of the {name}" for name, number in coverage.num_unreachable.items())
    click.secho(f"\nNot counted, because Python does not reach them: {beside}.", dim=True)
    click.secho("--json names everything that is refused, and what comes near it.", dim=True)


def _coverage_row(group: GroupCoverage, width: int) -> str:
    return (
        f"{group.group:<{width}}{group.num_names:>8}{group.num_working:>9}{len(group.refused):>9}{group.percent:>9.1f}"
    )


def _coverage_document(coverage: EmulatorCoverage) -> dict[str, object]:
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


def _print_json(assessment: Assessment) -> None:
    from jumar.report import findings_document, json_text

    document = findings_document(
        assessment.findings,
        subject=assessment.subject,
        kind=assessment.kind,
        soc=assessment.soc,
        torch_version=assessment.torch_version,
        verdict=assessment.verdict,
        num_by_status=assessment.num_by_status,
        rows=assessment.rows,
        notes=assessment.notes,
    )
    click.echo(json_text(document), nl=False)


def _print_text(assessment: Assessment) -> None:
    """Print the verdict, then what needs attention with its places, then what was not seen: about one screen."""
    click.secho(assessment.verdict, bold=True)
    click.echo(f"{assessment.subject}, PyTorch and torch_npu {assessment.torch_version}")
    for finding in assessment.findings[:MAX_FINDINGS]:
        click.echo()
        label = click.style(f"{finding.severity.label:<8}", fg=COLOURS[finding.severity])
        click.echo(f"{label}{finding.code}  {finding.message}")
        click.echo(f"{INDENT}{_places(finding)}")
        click.echo(f"{INDENT}→ {finding.action}")
    hidden = len(assessment.findings) - MAX_FINDINGS
    if hidden > 0:
        click.echo(f"\n{hidden} more finding{'' if hidden == 1 else 's'}: --json prints all of them.")
    click.echo()
    for note in assessment.notes:
        click.secho(note, dim=True)


def _places(finding: Finding) -> str:
    """Return the first places of a finding on one line."""
    known = finding.evidence.get("places")
    places = [str(place) for place in known] if isinstance(known, list) else [str(finding.where)]
    more = f" and {len(places) - MAX_PLACES} more" if len(places) > MAX_PLACES else ""
    return ", ".join(places[:MAX_PLACES]) + more
