"""An option that is given twice collects its values, or is refused: none is dropped without a word."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import click
import pytest

from jumar.cli.commands.convert.selection import distributed_command
from jumar.cli.main import Command, Group, cli, main


def walk(command: click.Command, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield words, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from walk(below, (*words, name))


COMMANDS = [*walk(cli, ()), (("convert", "…", "distributed"), distributed_command)]
OPTIONS = [
    pytest.param(words, command, option, id=" ".join((*words, option.opts[0])))
    for words, command in COMMANDS
    for option in command.params
    if isinstance(option, click.Option)
]


def value(option: click.Option, number: int) -> list[str]:
    """Return words that give the option a value; two numbers give two values, as far as the option has two."""
    if option.is_flag:
        return []
    if isinstance(option.type, click.Choice):
        return [option.type.choices[number % len(option.type.choices)]] * option.nargs
    return [str(number + 1)] * option.nargs


def test_every_command_is_of_the_class_that_looks_for_repeated_options() -> None:
    others = [words for words, command in COMMANDS if not isinstance(command, Command | Group)]
    assert others == []


@pytest.mark.parametrize(("words", "command", "option"), OPTIONS)
@pytest.mark.parametrize("spelled", [0, -1])
def test_an_option_given_twice_collects_or_is_refused(
    words: tuple[str, ...], command: click.Command, option: click.Option, spelled: int, capsys: pytest.CaptureFixture
) -> None:
    arguments = [option.opts[0], *value(option, 0), option.opts[spelled], *value(option, 1)]
    if option.is_flag:
        context = command.make_context("jumar", arguments, resilient_parsing=True)
        assert context.params.get(str(option.name), True)
    elif option.multiple:
        context = command.make_context("jumar", arguments, resilient_parsing=True)
        assert len(context.params[str(option.name)]) == 2
    else:
        if command is distributed_command:
            arguments, words = ["-i", "x.py", "distributed", *arguments], ("convert",)
        assert main([*words, *arguments]) == 2
        error = capsys.readouterr().err
        assert "was given 2 times" in error
        assert len(error.splitlines()) == 1


def test_both_sources_of_a_conversion_are_not_dropped(capsys: pytest.CaptureFixture) -> None:
    assert main(["convert", "-i", "a.py", "-i", "b.py", "--check"]) == 2
    assert capsys.readouterr().err == 'jumar: "-i or --input" was given 2 times and takes one value. Give it once.\n'


@pytest.mark.parametrize(
    ("words", "near"),
    [
        (["prot", "train.py"], "port"),
        (["Convert"], "convert"),
        (["diff"], "compare"),
        (["docter"], "doctor"),
        (["bank", "lst"], "list"),
        (["bank", "why"], "why-miss"),
        (["accuracy", "bisec"], "bisect"),
        (["export", "checkpiont"], "checkpoint"),
    ],
)
def test_an_unknown_command_names_the_near_one(words: list[str], near: str, capsys: pytest.CaptureFixture) -> None:
    assert main(words) == 2
    assert near in capsys.readouterr().err.partition("No such command ")[2].partition(". ")[2]


@pytest.mark.slow  # in a process of its own: a run brings the NPU up and leaves it to the processes it starts
def test_what_follows_the_script_is_the_scripts_own(tmp_path) -> None:
    script = tmp_path / "echo.py"
    script.write_text("import sys\nprint(sys.argv[1:])\n")
    words = ["run", str(script), "--lr", "1", "--lr", "2", "--soc", "a", "--soc", "b"]
    done = subprocess.run([sys.executable, "-m", "jumar", *words], capture_output=True, text=True, check=True)
    assert "['--lr', '1', '--lr', '2', '--soc', 'a', '--soc', 'b']" in done.stdout


@pytest.mark.parametrize("command", ["port", "tune"])
def test_an_option_of_the_script_before_the_dashes_is_told_where_it_stands(
    command: str, capsys: pytest.CaptureFixture
) -> None:
    assert main([command, "train.py", "--epochs", "1"]) == 2
    assert f"Options of the script follow `--`: jumar {command} SCRIPT -- --epochs" in capsys.readouterr().err
    assert main(["doctor", "--epochs"]) == 2
    assert "follow `--`" not in capsys.readouterr().err
