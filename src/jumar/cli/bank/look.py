"""`jumar bank list|show|why-miss`: what is in the bank, and why it has nothing for an operator."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from jumar.cli.bank.shared import bank_option, make_table, open_bank, print_json, print_table
from jumar.cli.options import json_option

if TYPE_CHECKING:
    from jumar.tune.bank import Bank, Entry

SHORT_KEY = 12
"""Characters of a key that lists show; `show` takes any beginning that only one task has."""


@click.command("list")
@click.argument("operator", required=False)
@bank_option
@json_option
def list_(*, operator: str | None, bank: str | None, as_json: bool) -> int:
    """List the entries, or those whose operator's name contains OPERATOR."""
    opened = open_bank(bank)
    entries = [entry for entry in opened.entries() if operator is None or operator in entry.task.operator]
    if as_json:
        print_json(entries=[entry.to_json() for entry in entries], bank=opened.name)
        return 0
    num_found = sum(entry.policy is not None for entry in entries)
    print_table(
        f"{num_found} policies and {len(entries) - num_found} without a faster one in {opened.name}.",
        make_table(["Key", "Operator", "Kind", "Policy", "Gain", "Device"], [_list_row(entry) for entry in entries]),
    )
    return 0


@click.command()
@click.argument("key")
@bank_option
@json_option
def show(*, key: str, bank: str | None, as_json: bool) -> int:
    """Show everything that was measured for the operator whose key begins with KEY."""
    entries = _entries_of(open_bank(bank), key)
    if as_json:
        print_json(entries=[entry.to_json() for entry in entries])
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


@click.command("why-miss")
@click.argument("recording", type=click.Path(path_type=Path))
@click.argument("operator", required=False)
@click.option("--device", default="cpu", show_default=True, help="The device that is asked for.")
@bank_option
@json_option
def why_miss(*, recording: Path, operator: str | None, device: str, bank: str | None, as_json: bool) -> int:
    """Say for each operator of RECORDING (or those whose name contains OPERATOR) whether the bank has it.

    For one that it has not, name the property that differs from the nearest entry: a shape, a stride, an
    argument, the machine or a version. RECORDING may be a folder that torch.npu.set_aoe filled, too.
    """
    from jumar.tune import this_machine
    from jumar.tune.bank import look_up
    from jumar.tune.source import open_source

    opened = open_bank(bank)
    entries, machine = opened.entries(), this_machine(device)
    uses = [use for use in open_source(recording).extraction.tasks if operator is None or operator in use.name]
    lookups = [(use, look_up(use.task, machine, entries)) for use in uses]
    if as_json:
        print_json(
            lookups=[
                {"name": use.name, "key": use.task.key, "status": found.status, "reason": found.reason,
                 "differences": [{"name": one.name, "asked": one.asked, "in_bank": one.in_bank}
                                 for one in found.differences]}
                for use, found in lookups
            ]
        )  # fmt: skip
        return 0
    num_hits = sum(found.status != "miss" for _, found in lookups)
    print_table(
        f"{opened.name} knows {num_hits} of {len(lookups)} operators of {recording} on {machine}.",
        make_table(["Operator", "Bank", "Why"], [[use.name, found.status, found.reason] for use, found in lookups]),
    )
    return 0


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
