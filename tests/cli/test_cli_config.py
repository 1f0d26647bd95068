"""Defaults from jumar.toml and pyproject.toml: what counts, where it comes from, what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest

from jumar.cli.config import defaults, read_config
from jumar.cli.main import cli, main


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("TUNE_BANK_PATH", "ASCEND_CACHE_PATH", "AOE_MODE"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def of(*words: str) -> dict[str, object]:
    command: click.Command = cli
    for word in words:
        assert isinstance(command, click.Group)
        found = command.get_command(click.Context(command), word)
        assert found is not None
        command = found
    return defaults(read_config(), words, command)


def test_a_table_sets_the_options_of_a_command_and_a_shared_key_those_of_all(folder: Path) -> None:
    (folder / "jumar.toml").write_text('soc = "Ascend910A"\n[run]\nsteps = 3\nsummary = true\n')
    assert of("run") == {"soc": "Ascend910A", "steps": 3, "wants_summary": True}
    assert of("record") == {"soc": "Ascend910A"}
    assert of("rule") == {}


def test_the_nearest_file_counts_and_jumar_toml_before_pyproject(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "pyproject.toml").write_text('[tool.jumar]\nsoc = "Ascend910A"\n')
    below = folder / "a" / "b"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    assert of("run") == {"soc": "Ascend910A"}
    (below / "pyproject.toml").write_text('[tool.jumar]\nsoc = "Ascend310P3"\n')
    assert of("run") == {"soc": "Ascend310P3"}
    (below / "jumar.toml").write_text('soc = "Ascend950"\n')
    assert of("run") == {"soc": "Ascend950"}
    (below / "pyproject.toml").write_text("[tool.ruff]\n")
    (below / "jumar.toml").unlink()
    assert of("run") == {"soc": "Ascend910A"}


def test_the_command_line_counts_more_than_the_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "jumar.toml").write_text('[advise]\nfail-on = "never"\nsoc = "Ascend999"\n')
    assert main(["advise", "nothing", "--soc", "Ascend910A"]) == 2
    assert "Ascend999" not in capsys.readouterr().err


def test_an_environment_variable_of_the_same_meaning_counts_more(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "jumar.toml").write_text('knowledge-bank = "shared"\n')
    assert of("bank", "list") == {"bank": "shared"}
    monkeypatch.setenv("TUNE_BANK_PATH", "mine")
    assert of("bank", "list") == {}


@pytest.mark.parametrize(
    ("text", "words", "said"),
    [
        ('sco = "Ascend910A"', ["rule", "JM101"], "Did you mean soc?"),
        ("[tun]\nrank = 1", ["rule", "JM101"], "Did you mean tune?"),
        ('[tune]\ntime-budge = "2m"', ["tune", "x"], "Did you mean time-budget?"),
        ("[run]\nsummary = 1", ["run", "x.py"], "must be true or false; it is 1"),
        ('[port]\nsteps = "many"', ["port", "x.py"], "'many' is not a valid integer"),
        ("[run]\nsoc = {a = 1}", ["run", "x.py"], "must be one value"),
        ("run = 3", ["run", "x.py"], "is not a shared option"),
        ("soc = ", ["rule", "JM101"], "must be TOML"),
        ('language = "fr"', ["rule", "JM101"], "must be en or zh"),
    ],
)
def test_what_is_wrong_is_said_with_file_and_key(
    text: str, words: list[str], said: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "jumar.toml").write_text(text)
    assert main(words) == 2
    message = capsys.readouterr().err
    assert said in message
    assert str(folder / "jumar.toml") in message


def test_config_shows_what_is_set_and_where(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "pyproject.toml").write_text('[tool.jumar]\nsoc = "Ascend910A"\n[tool.jumar.bank.list]\nbank = "b"\n')
    assert main(["config"]) == 0
    out = capsys.readouterr().out
    assert "soc  " in out
    assert "bank list --bank  b  " in out
    assert "[tool.jumar] soc" in out
    assert "[tool.jumar.bank.list] bank" in out


def test_config_of_a_command_shows_every_option_with_its_origin(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "jumar.toml").write_text('[run]\nsoc = "Ascend910A"\n')
    assert main(["config", "run", "--json"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)["settings"]}
    assert rows["--soc"]["value"] == "Ascend910A"
    assert rows["--soc"]["from"].endswith("jumar.toml, [run] soc")
    assert rows["--numerics"] == {"name": "--numerics", "value": "strict", "from": "default"}


def test_the_example_is_a_file_that_counts(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "--example"]) == 0
    text = capsys.readouterr().out
    (folder / "jumar.toml").write_text(text.replace("# soc =", "soc ="))
    assert of("run") == {"soc": "Ascend910B1"}
    assert main(["config"]) == 0


def test_without_a_file_config_says_so(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config"]) == 0
    assert "Nothing is set" in capsys.readouterr().out
