"""`jumar doctor`: what is wrong with this machine, or what the logs of a failed run say."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from jumar.base.errors import UsageError
from jumar.cli.answer import print_document
from jumar.cli.main import Command
from jumar.cli.options import exit_code, fail_on_option, json_option

if TYPE_CHECKING:
    from jumar.advise.doctor import Examination, LogDiagnosis


@click.command(cls=Command)
@click.argument("logs", nargs=-1, type=click.Path(path_type=Path), metavar="[LOG]... | options SCRIPT [TRAINING]")
@click.option("--soc", default=None, metavar="SOC", help="The chip that options are checked for.")
@json_option
@fail_on_option
def command(logs: Sequence[Path], soc: str | None, as_json: bool, fail_on: str) -> int:
    """Examine this machine, or, with LOGs, name the first error in the logs of a run.

    Without LOG: Python, torch, torch_npu, CANN, driver, environment variables and the host. With LOGs
    (files or folders: of all ranks, plogs too): known errors, vendor codes and tracebacks in the order of
    time. The environment is not examined then; the logs may be another machine's.

    `jumar doctor options SCRIPT` checks the options that a TensorFlow script or folder sets for the NPU; with a
    second one also that tuning (the first) and training set the same.

    Example: jumar doctor train.log ~/ascend/log
    """
    if logs and str(logs[0]) == "options" and not Path("options").exists():
        return tell_options(logs[1:2], logs[2:], soc=soc, as_json=as_json, fail_on=fail_on)
    if soc is not None:
        raise UsageError("--soc is for `jumar doctor options SCRIPT`. Leave it out.")
    from jumar.show import print_page

    if logs:
        diagnosis = _read(logs)
        if as_json:
            _print_logs_json(diagnosis)
        else:
            from jumar.show.pages.doctor import logs_page

            print_page(logs_page(diagnosis))
        return exit_code(diagnosis.findings, fail_on)
    examination = _examine()
    if as_json:
        _print_environment_json(examination)
    else:
        from jumar.show.pages.doctor import environment_page

        print_page(environment_page(examination))
    return exit_code(examination.findings, fail_on)


def tell_options(
    paths: Sequence[Path], training: Sequence[Path], *, soc: str | None, as_json: bool, fail_on: str
) -> int:
    """Print what TensorFlow scripts set for the NPU, and what is wrong with it."""
    import os

    from jumar.show import print_page
    from jumar.show.pages.options import options_page
    from jumar.soc.profiles import get_soc
    from jumar.tfadapter.checks.report import examine_options

    if not paths or len(training) > 1:
        raise UsageError("`jumar doctor options` takes a script or folder, and one more to compare with.")
    name = get_soc(soc).name if soc is not None else None
    report = examine_options(paths, training=training, soc=name, environment=os.environ)
    if as_json:
        print_document(report.findings, **report.to_json())
    else:
        print_page(options_page(report), more="`--json` prints all of it.")
    return exit_code(report.findings, fail_on)


def _read(logs: Sequence[Path]) -> LogDiagnosis:
    from jumar.advise.doctor import diagnose_logs, log_files
    from jumar.show import progress

    files = log_files(logs)
    with progress() as bars:
        task = bars.add_task("Read logs", total=sum(file.stat().st_size for file in files))
        return diagnose_logs(files, on_progress=lambda size: bars.update(task, advance=size))


def _examine() -> Examination:
    from jumar.advise.doctor import examine, survey
    from jumar.show import progress

    with progress() as bars:
        bars.add_task("Look at this machine", total=None)
        return examine(survey())


def _print_logs_json(diagnosis: LogDiagnosis) -> None:
    files = [
        {
            "path": str(report.path),
            "rank": report.rank,
            "num_lines": report.num_lines,
            "size_bytes": report.size_bytes,
            "first_time": report.first_time.isoformat() if report.first_time else None,
            "last_time": report.last_time.isoformat() if report.last_time else None,
        }
        for report in diagnosis.files
    ]
    first = diagnosis.first.finding.to_json() if diagnosis.first else None
    print_document(diagnosis.findings, first=first, files=files, notes=diagnosis.notes)


def _print_environment_json(examination: Examination) -> None:
    print_document(
        examination.findings,
        device=examination.device,
        facts=dict(examination.facts),
        not_checked=[gap.to_json() for gap in examination.not_checked],
        num_checked=examination.num_checked,
    )
