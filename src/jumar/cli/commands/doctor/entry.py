"""`jumar doctor`: what is wrong with this machine, or what the logs of a failed run say."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from jumar.base.errors import UsageError
from jumar.cli.answer import print_document
from jumar.cli.commands.doctor.options import tell_options
from jumar.cli.main import Command
from jumar.cli.options import exit_code, fail_on_option, json_option

if TYPE_CHECKING:
    from jumar.advise.doctor import Examination, LogDiagnosis


@click.command(cls=Command)
@click.argument("logs", nargs=-1, type=click.Path(), metavar="[LOG]... | options A [B]")
@click.option("--soc", default=None, metavar="SOC", help="The chip that options are checked for.")
@json_option
@fail_on_option
def command(logs: Sequence[str], soc: str | None, as_json: bool, fail_on: str) -> int:
    """Examine this machine, or, with LOGs, name the first error in the logs of a run.

    Without LOG: Python, torch, torch_npu, CANN, driver, environment variables and the host. With LOGs
    (files or folders: of all ranks, plogs too): known errors, vendor codes and tracebacks in the order of
    time. The environment is not examined then; the logs may be another machine's.

    `jumar doctor options A` checks the options that a TensorFlow script or folder sets for the NPU. With B also those
    that must agree between tuning (A) and use (B): each that differs, what it changes, and the corrected command. A and
    B are scripts, folders, commands of aoe, atc or jumar tune in quotes or in a text file, or knowledge banks.

    Example: jumar doctor train.log ~/ascend/log

    Example: jumar doctor options "aoe --job_type=2 --input_shape=x:1,3" "atc --input_shape=x:8,3"
    """
    if logs and logs[0] == "options" and not Path("options").exists():
        return tell_options(logs[1:2], logs[2:], soc=soc, as_json=as_json, fail_on=fail_on)
    if soc is not None:
        raise UsageError("--soc is for `jumar doctor options SCRIPT`. Leave it out.")
    from jumar.show import print_page

    if logs:
        diagnosis = _read([Path(log) for log in logs])
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
