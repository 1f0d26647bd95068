"""Help in two lengths: the usual options on one screen, all of them with --help-all."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest

from jumar.cli.help import short_text
from jumar.cli.main import COMMANDS, cli, main

MOST_LINES = 40
WIDTH = 80


def commands(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the words of every command and sub-command."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        yield (*path, name)
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))


ALL = list(commands(cli))


def printed(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> str:
    assert main([*words]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("words", ALL, ids=" ".join)
def test_the_help_of_a_command_fits_one_screen(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    assert len(printed((*words, "--help"), capsys).splitlines()) < MOST_LINES


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_help_all_shows_every_option_and_help_says_how_many_it_leaves_out(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    hidden = [one for one in command.params if getattr(one, "more", False)]
    short = printed((name, "--help"), capsys)
    assert (f"{len(hidden)} more: jumar {name} --help-all" in short) == bool(hidden)
    if hidden:
        whole = printed((name, "--help-all"), capsys)
        for option in command.params:
            assert not isinstance(option, click.Option) or option.opts[-1] in whole
        assert not any(f"  {one.opts[-1]} " in short for one in hidden)


def test_the_short_text_is_the_first_paragraph_and_two_examples() -> None:
    text = "Do it.\n\nHow it is done.\n\nExample: a\n\nExample: b\n\nMore.\n\nExample: c"
    assert short_text(text) == "Do it.\n\nExample: a\n\nExample: b"


def test_an_option_that_help_leaves_out_works(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tune", "--nproc", "1", "nothing"]) == 2
    assert "--nproc" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "near"),
    [
        (["compar"], "compare"),
        (["tune", "--job-typ", "1"], "--job-type"),
        (["bank", "lis"], "list"),
        (["convert", "--chek"], "--check"),
    ],
)
def test_a_wrong_word_is_answered_with_the_near_one(
    words: list[str], near: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    assert near in capsys.readouterr().err
