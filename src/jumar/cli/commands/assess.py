"""`jumar assess`: what a script, a folder or a recorded run needs, and what the NPU has."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from jumar.base.errors import UsageError
from jumar.cli.answer import print_document
from jumar.cli.complete import socs
from jumar.cli.main import Command
from jumar.cli.options import exit_code, fail_on_option, json_option, torch_version_option
from jumar.soc import DEFAULT_SOC

if TYPE_CHECKING:
    from jumar.convert.assess import Assessment


@click.command(cls=Command)
@click.argument("path", type=click.Path(path_type=Path), required=False)
@click.option("--emulator", is_flag=True, help="List how much of torch_npu the emulated NPU has; takes no PATH.")
@click.option(
    "--soc",
    default=None,
    metavar="SOC",
    shell_complete=socs,
    help=f"The NPU's system on a chip.  [default: the recording's, else {DEFAULT_SOC}]",
)
@torch_version_option
@json_option
@fail_on_option
def command(
    path: Path | None, emulator: bool, soc: str | None, torch_version: str | None, as_json: bool, fail_on: str
) -> int:
    """Tell which PyTorch calls of PATH the NPU supports, which run on the host, and which fail.

    PATH is a script (read together with the modules that it imports from its folder), a folder of sources, or a
    recording. Of a recording the executed operators are assessed. Nothing is run. Of a TensorFlow script the
    options for the NPU are checked.

    Example: jumar assess train.py --soc Ascend910B3
    """
    if emulator == (path is not None):
        raise UsageError("jumar assess takes either a PATH or --emulator; try jumar assess train.py.")
    if path is None:
        from jumar.convert.assess import assess_emulator
        from jumar.show.pages.assess import coverage_document, print_coverage

        coverage = assess_emulator()
        if as_json:
            from jumar.show import json_text

            click.echo(json_text(coverage_document(coverage)), nl=False)
        else:
            print_coverage(coverage)
        return 0
    from jumar.recording.schema import RUN_FILE

    is_recording = (path / RUN_FILE).is_file()
    if not is_recording and (sources := _of_tensorflow(path)):
        from jumar.cli.commands.doctor import tell_options

        return tell_options(sources, (), soc=soc, as_json=as_json, fail_on=fail_on)
    assessment = _of_recording(path, soc, torch_version) if is_recording else _of_source(path, soc, torch_version)
    if as_json:
        print_document(
            assessment.findings,
            subject=assessment.subject,
            kind=assessment.kind,
            soc=assessment.soc,
            torch_version=assessment.torch_version,
            release_origin=assessment.release_origin,
            verdict=assessment.verdict,
            num_by_status=assessment.num_by_status,
            rows=assessment.rows,
            notes=assessment.notes,
        )
    else:
        from jumar.show.pages.assess import print_assessment

        print_assessment(assessment)
    return exit_code(assessment.findings, fail_on)


def _of_tensorflow(path: Path) -> list[Path]:
    """Return what is read of a program or folder of TensorFlow: its sources; nothing of another one."""
    from jumar.convert import local_modules
    from jumar.tfadapter.checks.report import is_tensorflow

    if path.is_file():
        return local_modules(path) if is_tensorflow(path) else []
    files = sorted(path.rglob("*.py")) if path.is_dir() else []
    found = [file for file in files if is_tensorflow(file)]
    from jumar.base.outside.frameworks import imports_torch

    return [path] if found and not any(imports_torch(file) for file in files) else []


def _of_recording(path: Path, soc: str | None, torch_version: str | None) -> Assessment:
    from jumar.convert.assess import assess_recording

    return assess_recording(path, soc, torch_version)


def _of_source(path: Path, soc: str | None, torch_version: str | None) -> Assessment:
    from jumar.convert import local_modules
    from jumar.convert.assess import assess_source

    files = local_modules(path) if path.is_file() else path
    return assess_source(files, soc or DEFAULT_SOC, torch_version)
