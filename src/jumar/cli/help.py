"""Help in two lengths: `--help` shows the usual options, `--help-all` every option and the whole text.

An option made by `more_option` instead of `click.option` is one of the rest.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from inspect import cleandoc
from typing import Any

import click

from jumar.base.text.language import colon, translate

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]
_EXAMPLE = "Example:"
_MOST_EXAMPLES = 2
_OPTIONS = "Options"


class Option(click.Option):
    """An option that knows its place in the help: a group of options, and whether only `--help-all` shows it."""

    def __init__(self, *args: Any, group: str = _OPTIONS, more: bool = False, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.group, self.more = group, more


more_option = functools.partial(click.option, cls=Option, more=True)
"""`click.option` for an option that only `--help-all` shows."""


def options_of(group: str) -> Callable[..., Decorator]:
    """Return `click.option` for options of a group; `more=True` is for those that only `--help-all` shows."""
    return functools.partial(click.option, cls=Option, group=group)


def has_more(command: click.Command) -> bool:
    """Tell whether `--help-all` of the command shows more than `--help`."""
    text = command.help or ""
    return any(getattr(one, "more", False) for one in command.params) or short_text(text) != cleandoc(text)


def help_all_option() -> click.Option:
    """Return the option `--help-all`: it prints the whole help and ends."""

    def show(context: click.Context, _: click.Parameter, asked: bool) -> None:
        if asked and not context.resilient_parsing:
            context.meta[_KEY] = True
            click.echo(context.get_help(), color=context.color)
            context.exit()

    text = "Show every option, and exit."
    return click.Option(["--help-all"], is_flag=True, expose_value=False, is_eager=True, help=text, callback=show)


_KEY = f"{__name__}.all"


def shows_all(context: click.Context) -> bool:
    """Tell whether the whole help was asked for."""
    return bool(context.meta.get(_KEY))


def short_text(text: str) -> str:
    """Return the first paragraph of a command's text, and its first examples."""
    return "\n\n".join(_short(cleandoc(text).split("\n\n")))


def _short(paragraphs: list[str]) -> Iterator[str]:
    yield paragraphs[0]
    examples = [paragraph for paragraph in paragraphs[1:] if paragraph.startswith(_EXAMPLE)]
    yield from examples[:_MOST_EXAMPLES]


def told(text: str) -> str:
    """Return a command's text in the user's language, paragraph by paragraph; examples stay."""
    paragraphs = cleandoc(text).split("\n\n")
    return "\n\n".join(translate(" ".join(one.split())) if "\b" not in one else one for one in paragraphs)


def translate_help(text: str) -> str:
    """Return an option's help in the user's language; what stands in brackets behind it is click's."""
    said, brackets, rest = text.partition("  [")
    if rest.startswith("default: ") and rest.endswith("]"):
        rest = f"{translate(rest[:-1])}]"
    return translate(said) + brackets + rest


def write_usage(command: click.Command, context: click.Context, formatter: click.HelpFormatter) -> None:
    """Write the line of usage."""
    pieces = " ".join(command.collect_usage_pieces(context))
    formatter.write_usage(context.command_path, pieces, prefix=f"{translate('Usage')}{colon()}")


def write_options(command: click.Command, context: click.Context, formatter: click.HelpFormatter) -> None:
    """Write the options of a command: the usual ones, or all by groups.

    Groups stand in the order in which their first options were declared, `--help` in the last. Where options are left
    out, a line says how many.
    """
    groups: dict[str, list[tuple[str, str]]] = {}
    num_hidden = 0
    for option in command.get_params(context):
        record = option.get_help_record(context)
        if record is None or not isinstance(option, click.Option):
            continue
        if getattr(option, "more", False) and not shows_all(context):
            num_hidden += 1
            continue
        last = next(reversed(groups), _OPTIONS)
        own = option.group if isinstance(option, Option) and shows_all(context) else last
        groups.setdefault(own, []).append((record[0], translate_help(record[1])))
    for name, records in groups.items():
        with formatter.section(translate(name)):
            formatter.write_dl(records, col_max=26)
    if num_hidden:
        formatter.write_paragraph()
        formatter.write_text(translate(f"{num_hidden} more: {context.command_path} --help-all"))
