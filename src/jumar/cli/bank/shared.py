"""What the commands of `jumar bank` have in common: the bank that is meant, and how answers are printed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from jumar.cli.options import BANK_HELP

if TYPE_CHECKING:
    from rich.table import Table

    from jumar.tune.bank import Bank

PIPE_WIDTH = 160
"""Columns of a table that goes to a file or another program."""

bank_option = click.option("--bank", metavar="PLACE", help=BANK_HELP)


def open_bank(option: str | None, *, create: bool = False) -> Bank:
    """Return the bank that is meant, the built-in layer beneath it. Raises BankError."""
    from jumar.tune.bank import Bank, bank_place, built_in_place

    below = built_in_place(os.environ)
    beneath = Bank.open(below, create=False) if below is not None else None
    return Bank.open(bank_place(option, os.environ, writing=create), create=create, beneath=beneath)


def open_layers(option: str | None) -> Bank:
    """Return the bank that is meant above the built-in layer, or that alone, to be read only. Raises BankError."""
    from jumar.tune.bank import Bank, bank_place, built_in_place

    return Bank.layers(bank_place(option, os.environ), built_in_place(os.environ))


def make_table(titles: list[str], rows: list[list[str]]) -> Table:
    """Return a table without lines; the column `Key` is never broken."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0))
    for title in titles:
        table.add_column(title, no_wrap=title == "Key", overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def print_table(answer: str, table: Table) -> None:
    """Print the answer, and the table where it has rows."""
    from rich.console import Console

    click.echo(answer)
    if table.rows:
        console = Console()
        (console if console.is_terminal else Console(width=PIPE_WIDTH)).print(table)


def print_json(**values: object) -> None:
    """Print one JSON document."""
    from jumar.report import findings_document, json_text

    click.echo(json_text(findings_document([], **values)), nl=False)
