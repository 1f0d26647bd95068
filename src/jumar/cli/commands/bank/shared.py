"""The bank that a command of `jumar bank` or `jumar tune` means."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from jumar.cli.options import BANK_HELP

if TYPE_CHECKING:
    from jumar.tune.bank import Bank

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
