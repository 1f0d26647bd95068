"""`jumar bank`: what the knowledge bank holds, and why it has nothing for an operator."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from jumar.cli.options import force_option, json_option

if TYPE_CHECKING:
    from rich.table import Table

    from jumar.tune.bank import Bank, Entry

SHORT_KEY = 12
"""Characters of a key that lists show; `show` takes any beginning that only one task has."""

PIPE_WIDTH = 160
"""Columns of a table that goes to a file or another program."""

bank_option = click.option(
    "--bank",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Folder of the bank.  [default: TUNE_BANK_PATH, ASCEND_CACHE_PATH/aoe_data, ~/.local/share/jumar]",
)


@click.group()
def command() -> None:
    """Look into the knowledge bank that `jumar tune` fills.

    Example: jumar bank list
    """


@command.command("list")
@click.argument("operator", required=False)
@bank_option
@json_option
def list_(*, operator: str | None, bank: Path | None, as_json: bool) -> int:
    """List the entries, or those whose operator's name contains OPERATOR."""
    opened = _open(bank)
    entries = [entry for entry in opened.entries() if operator is None or operator in entry.task.operator]
    if as_json:
        _print_json(entries=[entry.to_json() for entry in entries], bank=str(opened.path))
        return 0
    num_found = sum(entry.policy is not None for entry in entries)
    _print_table(
        f"{num_found} policies and {len(entries) - num_found} without a faster one in {opened.path}.",
        _table(["Key", "Operator", "Kind", "Policy", "Gain", "Device"], [_list_row(entry) for entry in entries]),
    )
    return 0


@command.command()
@click.argument("key")
@bank_option
@json_option
def show(*, key: str, bank: Path | None, as_json: bool) -> int:
    """Show everything that was measured for the operator whose key begins with KEY."""
    entries = _entries_of(_open(bank), key)
    if as_json:
        _print_json(entries=[entry.to_json() for entry in entries])
        return 0
    task = entries[0].task
    click.echo(f"{task.operator}  {task.key}")
    for name, spec in task.tensors.items():
        click.echo(f"  {name}: {spec}")
    for name, value in task.arguments.items():
        click.echo(f"  {name}: {value}")
    for entry in entries:
        click.echo(f"\n{entry.kind} on {entry.machine}, {entry.updated}")
        click.echo(f"  {entry.policy or 'no faster policy'}" + (f": {entry.gain}" if entry.gain else ""))
        for tried in entry.tried:
            how = tried.outcome.gain or tried.outcome.detail
            click.echo(f"  tried {tried.policy}: {tried.outcome.status}: {how}")
    return 0


@command.command("why-miss")
@click.argument("recording", type=click.Path(path_type=Path))
@click.argument("operator", required=False)
@click.option("--device", default="cpu", show_default=True, help="The device that is asked for.")
@bank_option
@json_option
def why_miss(*, recording: Path, operator: str | None, device: str, bank: Path | None, as_json: bool) -> int:
    """Say for each operator of RECORDING (or those whose name contains OPERATOR) whether the bank has it.

    For one that it has not, name the property that differs from the nearest entry: a shape, a stride, an
    argument, the machine or a version.
    """
    from jumar.recording import Recording
    from jumar.tune import this_machine
    from jumar.tune.bank import look_up
    from jumar.tune.extract import extract

    opened = _open(bank)
    entries, machine = opened.entries(), this_machine(device)
    uses = [use for use in extract(Recording.open(recording)).tasks if operator is None or operator in use.name]
    lookups = [(use, look_up(use.task, machine, entries)) for use in uses]
    if as_json:
        _print_json(
            lookups=[
                {"name": use.name, "key": use.task.key, "status": found.status, "reason": found.reason,
                 "differences": [{"name": one.name, "asked": one.asked, "in_bank": one.in_bank}
                                 for one in found.differences]}
                for use, found in lookups
            ]
        )  # fmt: skip
        return 0
    num_hits = sum(found.status != "miss" for _, found in lookups)
    _print_table(
        f"{opened.path} knows {num_hits} of {len(lookups)} operators of {recording} on {machine}.",
        _table(["Operator", "Bank", "Why"], [[use.name, found.status, found.reason] for use, found in lookups]),
    )
    return 0


@command.command()
@click.option("-o", "--out", type=click.Path(path_type=Path, dir_okay=False), required=True, metavar="FILE.json")
@bank_option
@force_option
def export(*, out: Path, bank: Path | None, force: bool) -> int:
    """Write the policies as JSON lines, in the shape of the vendor's runtime knowledge bank.

    The content is Jumar's (keys and policies of the measured device): CANN cannot load it.
    """
    from jumar.report import write_text
    from jumar.tune.bank import export_lines

    lines = list(export_lines(_open(bank).entries()))
    write_text(out, "".join(f"{line}\n" for line in lines), force=force)
    click.echo(f"Wrote {len(lines)} policies to {out}.", err=True)
    return 0


def _open(option: Path | None) -> Bank:
    from jumar.tune import Bank, bank_folder

    return Bank.open(bank_folder(option, os.environ), create=False)


def _entries_of(bank: Bank, beginning: str) -> list[Entry]:
    """Return the entries of the one task whose key begins so. Raises UsageError when there is none or several."""
    from jumar.errors import UsageError

    entries = [entry for entry in bank.entries() if entry.task.key.startswith(beginning.lower())]
    keys = {entry.task.key for entry in entries}
    if len(keys) == 1:
        return entries
    how_many = f"{len(keys)} operators of the bank have" if keys else "no operator of the bank has"
    raise UsageError(f'"{beginning}" must be the beginning of one key; {how_many} it. See `jumar bank list`.')


def _list_row(entry: Entry) -> list[str]:
    gain = f"{(entry.gain.ratio - 1) * 100:+.1f} %" if entry.gain is not None else ""
    policy = str(entry.policy) if entry.policy is not None else f"none of {len(entry.tried)} tried"
    return [entry.task.key[:SHORT_KEY], str(entry.task), entry.kind, policy, gain, _short(entry)]


def _short(entry: Entry) -> str:
    return f"{entry.machine.device}, torch {entry.machine.torch}"


def _table(titles: list[str], rows: list[list[str]]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0))
    for title in titles:
        table.add_column(title, no_wrap=title == "Key", overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def _print_table(answer: str, table: Table) -> None:
    from rich.console import Console

    click.echo(answer)
    if table.rows:
        console = Console()
        (console if console.is_terminal else Console(width=PIPE_WIDTH)).print(table)


def _print_json(**values: object) -> None:
    from jumar.report import findings_document, json_text

    click.echo(json_text(findings_document([], **values)), nl=False)
