"""`jumar bank merge|export|import`: from one bank to another."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from jumar.base.text import counted
from jumar.cli.answer import print_document
from jumar.cli.main import Command
from jumar.cli.options import bank_option, force_option, json_option, open_bank

if TYPE_CHECKING:
    from jumar.tune.bank.entry import Merged
    from jumar.tune.bank.precisions import Known
    from jumar.tune.bank.store import Bank
    from jumar.tune.model.machine import Machine


@click.command(cls=Command)
@click.argument("sources", nargs=-1, required=True, metavar="PLACE...")
@click.option("--skip-others", is_flag=True, help="Leave out entries of other devices instead of refusing the bank.")
@bank_option
@json_option
def merge(*, sources: tuple[str, ...], skip_others: bool, bank: str | None, as_json: bool) -> int:
    """Take over the entries of the banks at PLACE... (folders or URLs).

    Where both banks have an operator, the policies that gain more stay, and all of them: they were measured on
    top of each other. Of plans in fewer bits, for the same weights and error budget, the faster one stays. A bank
    with entries of another kind of device than this bank and this machine is refused.
    """
    from jumar.tune.bank.entry import Merged
    from jumar.tune.bank.location import bank_place
    from jumar.tune.bank.store import Bank

    target, total = open_bank(bank, create=True), Merged()
    known = _machines(target)
    places = [(source, bank_place(source, os.environ, option_name="PLACE")) for source in sources]
    read = [(source, Bank.open(place, create=False).everything()) for source, place in places]
    for entries in [_of_known_machines(source, entries, known, skip_others) for source, entries in read]:
        total += target.merge(entries)
    _say(f"Merged {counted(len(sources), 'bank')} into {target.name}", total, as_json)
    return 0


@click.command(cls=Command)
@click.option("-o", "--out", type=click.Path(path_type=Path, dir_okay=False), required=True, metavar="FILE.json")
@bank_option
@force_option
def export(*, out: Path, bank: str | None, force: bool) -> int:
    """Write the policies as JSON lines, in the shape of the vendor's runtime knowledge bank.

    The content is Jumar's (keys and policies of the measured device): CANN cannot load it, `jumar bank import` can.
    """
    from jumar.base.files import write_result
    from jumar.tune.bank.exchange import export_lines

    lines = list(export_lines(open_bank(bank).everything()))
    write_result(out, "".join(f"{line}\n" for line in lines), force=force)
    click.echo(f"Wrote {counted(len(lines), 'policy', 'policies')} to {out}.", err=True)
    return 0


@click.command("import", cls=Command)
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--skip-others", is_flag=True, help="Leave out entries of other devices instead of refusing the bank.")
@bank_option
@json_option
def import_(*, file: Path, skip_others: bool, bank: str | None, as_json: bool) -> int:
    """Take over the policies of a FILE that `jumar bank export` wrote, by the rules of `jumar bank merge`."""
    from jumar.base.errors import InputError
    from jumar.tune.bank.exchange import import_lines

    try:
        lines = file.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"{file} must be a file that `jumar bank export` wrote, and cannot be read: {error}."
        ) from error
    target = open_bank(bank, create=True)
    counts = target.merge(_of_known_machines(str(file), import_lines(lines, str(file)), _machines(target), skip_others))
    _say(f"Imported {file} into {target.name}", counts, as_json)
    return 0


def _machines(target: Bank) -> list[Machine]:
    """Return this machine and those of the bank."""
    from jumar.tune import this_machine

    return [this_machine(), *(one.machine for one in target.everything())]


def _of_known_machines(source: str, entries: list[Known], known: list[Machine], skip_others: bool) -> list[Known]:
    """Return the entries of the devices of `known`. Raises BankError for others."""
    from jumar.tune.bank.entry import foreign
    from jumar.tune.model.errors import BankError

    others = foreign(entries, known)
    if others and not skip_others:
        raise BankError(
            f"{source} must hold policies of this bank's devices only; it has some of {others[0]}, which say nothing "
            "about another device. Give --skip-others to leave them out."
        )
    keys = {machine.key for machine in others}
    return [entry for entry in entries if entry.machine.key not in keys]


def _say(done: str, counts: Merged, as_json: bool) -> None:
    if as_json:
        print_document(**asdict(counts))
        return
    click.echo(
        f"{done}: {counted(counts.num_added, 'operator')} added, {counts.num_better} replaced by better policies, "
        f"{counts.num_kept} kept, {counts.num_built_in} left to the built-in layer."
    )
