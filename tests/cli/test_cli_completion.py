"""What a shell completes: commands, options, chips, rules, folders of recordings."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from jumar.cli.main import cli, main


def completed(words: list[str], begun: str) -> list[str]:
    return [item.value for item in ShellComplete(cli, {}, "jumar", "_JUMAR_COMPLETE").get_completions(words, begun)]


def test_commands_and_options_are_completed() -> None:
    assert completed([], "comp") == ["compare", "completion"]
    assert "--time-budget" in completed(["tune"], "--ti")
    assert completed(["bank"], "why") == ["why-miss"]


@pytest.mark.parametrize("command", ["run", "assess", "advise", "port", "record", "replay"])
def test_chips_are_completed(command: str) -> None:
    assert completed([command, "--soc"], "ascend310") == ["Ascend310P3", "Ascend310B1"]


def test_rules_are_completed_by_code_and_by_name() -> None:
    assert "JM101" in completed(["rule"], "JM10")
    assert "low-host-memory" in completed(["rule"], "low-host")


def test_folders_of_recordings_are_completed_before_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("rec-a", "rec-b", "other"):
        (tmp_path / "in" / name).mkdir(parents=True)
    (tmp_path / "in" / "rec-a" / "run.json").write_text("{}")
    assert completed(["compare"], f"in{os.sep}rec") == [f"in{os.sep}rec-a"]
    assert completed(["compare", "x"], f"in{os.sep}oth") == [f"in{os.sep}oth"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell_names_jumar(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    out = capsys.readouterr().out
    assert "_JUMAR_COMPLETE" in out
    assert "jumar" in out


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash is installed")
def test_bash_completes_without_torch(tmp_path: Path) -> None:
    script = subprocess.run(
        [sys.executable, "-m", "jumar", "completion", "bash"], capture_output=True, text=True, check=True
    ).stdout
    (tmp_path / "complete.sh").write_text(script)
    asked = "COMP_WORDS=(jumar rule JM81); COMP_CWORD=2; _jumar_completion jumar"
    program = f"source complete.sh; {asked}; printf '%s\\n' ${{COMPREPLY[@]}}"
    (tmp_path / "jumar").write_text(f'#!/bin/sh\nexec {sys.executable} -X importtime -m jumar "$@" 2>imports\n')
    (tmp_path / "jumar").chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-c", program], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert "JM816" in done.stdout.split()
    loaded = {line.rpartition("|")[2].strip() for line in (tmp_path / "imports").read_text().splitlines()}
    assert not {"torch", "numpy", "libcst"} & loaded
