"""`jumar bank`: what the knowledge bank holds, why it has nothing for an operator, and how banks become one."""

from __future__ import annotations

import click

from jumar.cli.commands.bank import change, exchange, look, verify
from jumar.cli.main import Group


@click.group(cls=Group)
def command() -> None:
    """Look into the knowledge bank that `jumar tune` fills, and keep it in order.

    Example: jumar bank list
    """


for _one in (
    look.list_, look.show, look.why_miss, exchange.merge, exchange.export, exchange.import_, change.prune,
    verify.verify,
):  # fmt: skip
    command.add_command(_one)
