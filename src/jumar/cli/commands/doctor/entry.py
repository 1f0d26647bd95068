"""`jumar doctor`: what is wrong with this machine, or what the logs of a failed run say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from jumar.base.errors import UsageError
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
@more_option(
    "-o", "--output", default=None, type=click.Path(path_type=Path), metavar="FILE", help="Of opinfo: the summary."
)
@more_option("--soc", default=None, metavar="SOC", help="The chip that options are checked for.")
@json_option
@fail_on_option
def command(**given: Any) -> int:
    """Examine this machine, or, with LOGs, name the first error in the logs of a run.

    Without LOG: Python, torch, torch_npu, CANN, driver, environment variables and the host. With LOGs
    (files or folders: of all ranks, plogs too; `-` reads stdin): known errors, vendor codes and tracebacks in the
    order of time. The environment is not examined then; the logs may be another machine's.

    `jumar doctor options A` checks the options that a TensorFlow script or folder sets for the NPU. With B also those
    that must agree between tuning (A) and use (B): each that differs, what it changes, and the corrected command. A and
    B are scripts, folders, commands of aoe, atc or jumar tune in quotes or in a text file, or knowledge banks.

    `jumar doctor opinfo PLOG` lists the operators that CANN compiled and ran, from plogs of the level INFO. With
    --output it writes ascend_op_info_summary.txt.

    --explain takes a code in any form, an entry's or a rule's name, an environment variable, or a line of a log.

    Example: jumar doctor train.log ~/ascend/log

    Example: jumar doctor options "aoe --job_type=2 --input_shape=x:1,3" "atc --input_shape=x:8,3"
    """
    asked = Asked(**given)
    asked.check()
    return next(work for applies, work in _WORKS if applies(asked))(asked)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the command line asks for."""

    logs: Sequence[str]
    follow: bool
    entries: Sequence[Path]
    explain: str | None
    learn: str | None
    test_entries: bool
    bundle: Path | None
    fix: bool
    yes: bool
    output: Path | None
    soc: str | None
    as_json: bool
    fail_on: str

    def is_word(self, word: str) -> bool:
        """Tell whether the first LOG is this word, and no file of that name."""
        return bool(self.logs) and self.logs[0] == word and not Path(word).exists()

    @property
    def is_rank_table(self) -> bool:
        """Tell whether the LOGs are rank tables of HCCL, by their content."""
        from jumar.advise.doctor.rank_table import is_rank_table

        return bool(self.logs) and all(is_rank_table(Path(log)) for log in self.logs)

    def check(self) -> None:
        """Raise UsageError where an option is given that the work does not have, or two works are asked for."""
        if self.soc is not None and not self.is_word("options"):
            raise UsageError("--soc is for `jumar doctor options SCRIPT`. Leave it out.")
        if self.output is not None and not self.is_word("opinfo"):
            raise UsageError("--output is for `jumar doctor opinfo PLOG`. Leave it out.")
        if self.yes and not self.fix:
            raise UsageError("--yes belongs to --fix. Leave it out, or add --fix.")
        works = {
            "--explain": self.explain is not None,
            "--learn": self.learn is not None,
            "--test-entries": self.test_entries,
            "--bundle": self.bundle is not None,
            "--fix": self.fix,
            "--follow": self.follow,
        }
        names = [name for name, is_given in works.items() if is_given]
        if len(names) > 1:
            raise UsageError(f"{names[0]} and {names[1]} do one work each. Leave one of them out.")


def _options(asked: Asked) -> int:
    from jumar.cli.commands.doctor.options import tell_options

    return tell_options(asked.logs[1:2], asked.logs[2:], soc=asked.soc, as_json=asked.as_json, fail_on=asked.fail_on)


def _opinfo(asked: Asked) -> int:
    from jumar.cli.commands.doctor.opinfo import tell_opinfo

    return tell_opinfo([Path(log) for log in asked.logs[1:]], output=asked.output, as_json=asked.as_json)


def _entries(asked: Asked) -> int:
    from jumar.cli.commands.doctor.entries import tell_entries

    return tell_entries(
        asked.entries, explain=asked.explain, learn=asked.learn, test=asked.test_entries, as_json=asked.as_json
    )


def _bundle(asked: Asked) -> int:
    from jumar.cli.commands.doctor.bundle import tell_bundle

    assert asked.bundle is not None
    return tell_bundle(asked.bundle, asked.logs, entries=asked.entries, as_json=asked.as_json)


def _fix(asked: Asked) -> int:
    from jumar.cli.commands.doctor.fix import tell_fixes

    return tell_fixes(asked.logs, entries=asked.entries, without_asking=asked.yes, as_json=asked.as_json)


def _follow(asked: Asked) -> int:
    from jumar.cli.commands.doctor.follow import tell_follow

    return tell_follow(asked.logs, entries=asked.entries, as_json=asked.as_json, fail_on=asked.fail_on)


def _logs(asked: Asked) -> int:
    from jumar.cli.commands.doctor.logs import tell_logs

    return tell_logs(asked.logs, entries=asked.entries, as_json=asked.as_json, fail_on=asked.fail_on)


def _rank_tables(asked: Asked) -> int:
    from jumar.cli.commands.doctor.machine import tell_rank_tables

    return tell_rank_tables(asked.logs, as_json=asked.as_json, fail_on=asked.fail_on)


def _machine(asked: Asked) -> int:
    from jumar.cli.commands.doctor.machine import tell_machine

    return tell_machine(as_json=asked.as_json, fail_on=asked.fail_on)


_WORKS: tuple[tuple[Callable[[Asked], bool], Callable[[Asked], int]], ...] = (
    (lambda asked: asked.is_word("options"), _options),
    (lambda asked: asked.is_word("opinfo"), _opinfo),
    (lambda asked: asked.explain is not None or asked.learn is not None or asked.test_entries, _entries),
    (lambda asked: asked.bundle is not None, _bundle),
    (lambda asked: asked.fix, _fix),
    (lambda asked: asked.follow, _follow),
    (lambda asked: asked.is_rank_table, _rank_tables),
    (lambda asked: bool(asked.logs), _logs),
    (lambda _: True, _machine),
)
"""Each work with what asks for it; the first that applies is done."""
