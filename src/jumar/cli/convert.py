"""`jumar convert`: CUDA sources in, NPU sources, a patch and findings out."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from jumar.cli.options import exit_code, fail_on_option, force_option, json_option
from jumar.words import counted

if TYPE_CHECKING:
    from jumar.findings import Finding
    from jumar.migrate import Conversion
    from jumar.migrate.options import Target


@click.command()
@click.option(
    "-i",
    "--input",
    "source",
    type=click.Path(path_type=Path),
    required=True,
    metavar="IN",
    help="A script or a folder.",
)
@click.option(
    "-o",
    "--output",
    "out",
    type=click.Path(path_type=Path),
    metavar="OUT",
    help="Folder to write NAME_msft/ into; not needed with --dry-run.",
)
@click.option(
    "--target", type=click.Choice(["npu"]), default="npu", show_default=True, help="What the sources are written for."
)
@click.option("--unsafe", is_flag=True, help="Also make the edits that may change what the program does.")
@click.option("--diff", is_flag=True, help="Print the changes as a unified diff.")
@click.option("--dry-run", is_flag=True, help="Write nothing.")
@force_option
@json_option
@fail_on_option
def command(
    *,
    source: Path,
    out: Path | None,
    target: Target,
    unsafe: bool,
    diff: bool,
    dry_run: bool,
    force: bool,
    as_json: bool,
    fail_on: str,
) -> int:
    """Rewrite the CUDA parts of IN for the NPU; everything else stays byte for byte.

    OUT/NAME_msft/ gets the same tree, with findings.json and changes.patch (for `git apply` at IN). The
    input is never changed. What is left to do by hand is listed; `jumar rule CODE` explains each rule.

    Example: jumar convert -i train.py -o converted --diff
    """
    from jumar.errors import ScriptError
    from jumar.migrate import ConvertOptions, convert_tree
    from jumar.migrate.project import check_output
    from jumar.report import progress

    folder = output_folder(source, out, dry_run)
    if folder is not None and source.exists():
        check_output(source, folder, force)
    options = ConvertOptions(target=target, unsafe=unsafe)
    with progress() as bars:
        task = bars.add_task("Converting", total=None)
        conversion = convert_tree(
            source,
            options,
            exclude=[folder] if folder is not None else [],
            on_progress=lambda done, total: bars.update(task, completed=done, total=total),
        )
    if source.is_file() and conversion.failures:
        failure = conversion.failures[0]
        raise ScriptError(f"{source}{failure.error.removeprefix(failure.path)}")
    patch = conversion.patch_bytes()
    if folder is not None:
        conversion.write(folder, force, reports=_reports(conversion, patch))
    if diff and not as_json:
        click.echo(patch)  # bytes, because a source may be in another encoding than the terminal
    _print(conversion, folder, as_json=as_json, diff=patch if diff else None)
    return exit_code(conversion.findings, fail_on)


def output_folder(source: Path, out: Path | None, dry_run: bool) -> Path | None:
    """Return `OUT/NAME_msft`, or None for a dry run. Raises UsageError when neither is asked for."""
    from jumar.errors import UsageError

    if dry_run:
        return None
    if out is None:
        raise UsageError('"-o OUT" must say where to write. Give a folder, or --dry-run to write nothing.')
    resolved = source.resolve()
    return out / f"{resolved.stem if source.is_file() else resolved.name}_msft"


def _reports(conversion: Conversion, patch: bytes) -> dict[str, bytes]:
    from jumar.report import findings_document, json_text

    document = findings_document(conversion.findings, **_numbers(conversion))
    return {"findings.json": json_text(document).encode(), "changes.patch": patch}


def _numbers(conversion: Conversion) -> dict[str, Any]:
    return {
        "num_files": len(conversion.files),
        "num_changed": len(conversion.changed),
        "num_failed": len(conversion.failures),
        "num_edits": conversion.num_edits,
        "changed": [outcome.path for outcome in conversion.changed],
    }


def _print(conversion: Conversion, folder: Path | None, *, as_json: bool, diff: bytes | None) -> None:
    if as_json:
        from jumar.report import findings_document, json_text

        extra: dict[str, Any] = {"output": str(folder) if folder else None, **_numbers(conversion)}
        if diff is not None:
            extra["diff"] = diff.decode("utf-8", "replace")
        click.echo(json_text(findings_document(conversion.findings, **extra)), nl=False)
        return
    _print_summary(conversion, folder)


def _print_summary(conversion: Conversion, folder: Path | None) -> None:
    from jumar.report import print_findings

    num_changed, num_files = len(conversion.changed), len(conversion.files)
    where = f" → {folder}" if folder is not None else " (nothing written)"
    click.echo(f"{counted(conversion.num_edits, 'edit')} in {num_changed} of {counted(num_files, 'file')}{where}")
    if conversion.failures:
        click.echo(f"{counted(len(conversion.failures), 'file')} could not be read and stayed as it was.")
    made = Counter(finding.code for finding in conversion.findings if finding.evidence.get("applied"))
    if made:
        click.echo("Converted: " + ", ".join(f"{_name(code)} {number}" for code, number in sorted(made.items())))
    left = [finding for finding in conversion.findings if is_left(finding)]
    click.echo()
    print_findings(left, title="Left for you")


def is_left(finding: Finding) -> bool:
    """Tell whether a finding asks for something: it was not converted, or needs a look after it was."""
    from jumar.findings import Severity

    applied = bool(finding.evidence.get("applied"))
    return finding.severity >= (Severity.WARNING if applied else Severity.ADVICE)


def _name(code: str) -> str:
    from jumar.migrate.rules import RULES

    return next((f"{rule.code} {rule.name}" for rule in RULES if rule.code == code), code)
