"""A command whose `--help` shows its options in groups, and examples line by line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from jumar.cli.main import Command

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


class GroupedOption(click.Option):
    """An option that belongs to a group of the help text."""

    def __init__(self, *args: Any, group: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.group = group


def option(group: str) -> Callable[..., Decorator]:
    """Return `click.option` for options of a group."""

    def make(*names: str, **settings: Any) -> Decorator:
        return click.option(*names, cls=GroupedOption, group=group, **settings)

    return make


class GroupedCommand(Command):
    """Writes one section a group, in the order in which their first options were declared; `--help` in the last."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options."""
        groups: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None and isinstance(parameter, click.Option):
                last = next(reversed(groups), "Options")
                groups.setdefault(getattr(parameter, "group", last), []).append(record)
        for name, records in groups.items():
            with formatter.section(name):
                formatter.write_dl(records, col_max=26)
