"""`jumar doctor`: what is wrong with this machine, or what the logs of a failed run say."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from jumar.base.errors import UsageError
from jumar.cli.commands.doctor.options import tell_options
from jumar.cli.help import more_option
from jumar.cli.main import Command
from jumar.cli.options import fail_on_option, json_option

_FOLDER = click.Path(path_type=Path, file_okay=False)


@click.command(cls=Command)
@click.argument("logs", nargs=-1, type=click.Path(), metavar="[LOG]... | options A [B] | opinfo PLOG...")
@click.option("--follow", is_flag=True, help="Read on while the LOGs grow; print each new error. Ctrl-C ends it.")
@more_option("--entries", multiple=True, type=_FOLDER, metavar="DIR", help="Your own entries beside Jumar's.")
@click.option("--explain", default=None, metavar="CODE", help="Print what a code or an entry means, and what to do.")
@more_option("--learn", default=None, metavar="LOG", help="Propose an entry for the first unlisted error of LOG.")
@more_option("--test-entries", is_flag=True, help="Check every entry, yours too, against its own example.")
@click.option("--bundle", default=None, type=click.Path(path_type=Path), metavar="FILE", help="Pack a bug report.")
@click.option("--fix", is_flag=True, help="Mend what can be undone: each change is shown first.")
@more_option("--yes", is_flag=True, help="With --fix: make the changes without asking.")
@more_option("--soc", default=None, metavar="SOC", help="The chip that options are checked for.")
@json_option
@fail_on_option
def command(
    logs: Sequence[str],
    follow: bool,
    entries: Sequence[Path],
    explain: str | None,
    learn: str | None,
    test_entries: bool,
    bundle: Path | None,
    fix: bool,
    yes: bool,
    soc: str | None,
    as_json: bool,
    fail_on: str,
) -> int:
    """Examine this machine, or, with LOGs, name the first error in the logs of a run.

    Without LOG: Python, torch, torch_npu, CANN, driver, environment variables and the host. With LOGs
    (files or folders: of all ranks, plogs too; `-` reads stdin): known errors, vendor codes and tracebacks in the
    order of time. The environment is not examined then; the logs may be another machine's.

    `jumar doctor options A` checks the options that a TensorFlow script or folder sets for the NPU. With B also those
    that must agree between tuning (A) and use (B): each that differs, what it changes, and the corrected command. A and
    B are scripts, folders, commands of aoe, atc or jumar tune in quotes or in a text file, or knowledge banks.

    `jumar doctor opinfo PLOG` lists the operators that CANN compiled and ran, from plogs with OP_INFO lines.

    Example: jumar doctor train.log ~/ascend/log

    Example: jumar doctor options "aoe --job_type=2 --input_shape=x:1,3" "atc --input_shape=x:8,3"
    """
    if logs and logs[0] == "options" and not Path("options").exists():
        return tell_options(logs[1:2], logs[2:], soc=soc, as_json=as_json, fail_on=fail_on)
    if soc is not None:
        raise UsageError("--soc is for `jumar doctor options SCRIPT`. Leave it out.")
    if yes and not fix:
        raise UsageError("--yes belongs to --fix. Leave it out, or add --fix.")
    _check_one_of(explain=explain, learn=learn, test_entries=test_entries, bundle=bundle, fix=fix, follow=follow)
    if logs and logs[0] == "opinfo" and not Path("opinfo").exists():
        from jumar.cli.commands.doctor.opinfo import tell_opinfo

        return tell_opinfo([Path(log) for log in logs[1:]], as_json=as_json)
    if explain is not None or learn is not None or test_entries:
        from jumar.cli.commands.doctor.entries import tell_entries

        return tell_entries(entries, explain=explain, learn=learn, test=test_entries, as_json=as_json)
    if bundle is not None:
        from jumar.cli.commands.doctor.bundle import tell_bundle

        return tell_bundle(bundle, logs, entries=entries, as_json=as_json)
    if fix:
        from jumar.cli.commands.doctor.fix import tell_fixes

        return tell_fixes(logs, without_asking=yes, as_json=as_json)
    if follow:
        from jumar.cli.commands.doctor.follow import tell_follow

        return tell_follow(logs, entries=entries, as_json=as_json, fail_on=fail_on)
    if logs:
        from jumar.cli.commands.doctor.logs import tell_logs

        return tell_logs(logs, entries=entries, as_json=as_json, fail_on=fail_on)
    from jumar.cli.commands.doctor.machine import tell_machine

    return tell_machine(as_json=as_json, fail_on=fail_on)


def _check_one_of(**given: object) -> None:
    """Raise UsageError where two of the options are given that each do a work of their own."""
    names = [f"--{name.replace('_', '-')}" for name, value in given.items() if value]
    if len(names) > 1:
        raise UsageError(f"{names[0]} and {names[1]} do one work each. Leave one of them out.")
