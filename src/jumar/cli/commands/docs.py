"""`jumar docs`: the guides, in the terminal."""

from __future__ import annotations

import sys

import click

from jumar.cli.complete import guides
from jumar.cli.main import Command
from jumar.cli.options import json_only_option


@click.command(cls=Command)
@click.argument("topic", required=False, shell_complete=guides)
@json_only_option
def command(topic: str | None, as_json: bool) -> int:
    """Print the guide of TOPIC; without TOPIC, list all guides.

    Example: jumar docs compare

    Example: jumar docs emulator-numerics
    """
    from jumar.show.pages.guides.shelf import guide, topics

    if topic is None:
        from jumar.show.pages.guides.terminal import print_topics, topics_json

        click.echo(topics_json(topics()), nl=False) if as_json else print_topics(topics())
        return 0
    found = guide(topic)
    text = found.path.read_text("utf-8")
    if as_json:
        from jumar.show import json_text

        click.echo(json_text({"name": found.name, "title": found.title, "text": text}), nl=False)
        return 0
    from jumar.show.pages.guides.terminal import rendered

    shown = rendered(text, is_terminal=sys.stdout.isatty())
    if sys.stdout.isatty():
        click.echo_via_pager(shown, color=True)
    else:
        click.echo(shown, nl=False)
    return 0
