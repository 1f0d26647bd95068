"""`jumar completion`: the script that teaches a shell the commands, options and values of Jumar."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from jumar.cli.main import Command

SHELLS = ("bash", "zsh", "fish")
_VARIABLE = "_JUMAR_COMPLETE"


@click.command(cls=Command)
@click.argument("shell", type=click.Choice(SHELLS))
def command(shell: str) -> int:
    """Print the completion script of a shell: bash (4.4 or newer), zsh or fish.

    Commands, options, chips (`--soc`), rules, entries of the doctor and folders of recordings are completed.

    Example: jumar completion bash >> ~/.bashrc

    Example: jumar completion fish > ~/.config/fish/completions/jumar.fish
    """
    from jumar.cli.main import cli

    found = get_completion_class(shell)
    assert found is not None
    click.echo(found(cli, {}, "jumar", _VARIABLE).source())
    return 0
