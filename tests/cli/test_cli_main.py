"""The frame of the command line: help without torch, exit codes, shared options."""

from __future__ import annotations

import subprocess
import sys

import pytest

from jumar.base.errors import UsageError
from jumar.base.findings import Finding, Severity
from jumar.cli.main import COMMANDS, main
from jumar.cli.options import exit_code, parse_steps


def finding(severity: Severity) -> Finding:
    return Finding(code="JM999", severity=severity, message="something")


def test_help_names_every_command_and_imports_none(capsys: pytest.CaptureFixture[str]) -> None:
    code = (
        "import sys; from jumar.cli.main import main; code = main(['--help']);"
        "loaded = [m for m in sys.modules if m.startswith('jumar.cli.commands.') and m not in"
        " ('jumar.cli.main', 'jumar.cli.options')] + [m for m in ('torch', 'pyarrow', 'libcst') if m in sys.modules];"
        "sys.exit(code or bool(loaded))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert all(name in result.stdout for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name, "--help"]) == 0
    assert f"Usage: jumar {name}" in capsys.readouterr().out


def test_an_unknown_command_is_wrong_use(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prot"]) == 2
    assert "No such command 'prot'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("severities", "fail_on", "expected"),
    [
        ([], "advice", 0),
        ([Severity.INFO], "advice", 0),
        ([Severity.ADVICE], "advice", 1),
        ([Severity.WARNING], "error", 0),
        ([Severity.INFO, Severity.ERROR], "error", 1),
        ([Severity.ERROR], "never", 0),
    ],
)
def test_the_exit_code_follows_the_worst_finding(severities: list[Severity], fail_on: str, expected: int) -> None:
    assert exit_code([finding(severity) for severity in severities], fail_on) == expected


@pytest.mark.parametrize(
    ("text", "expected"), [(None, None), ("3", (0, 3)), (":4", (0, 4)), ("2:5", (2, 5)), (" 1:2 ", (1, 2))]
)
def test_steps_are_a_half_open_range(text: str | None, expected: tuple[int, int] | None) -> None:
    assert parse_steps(text) == expected


def test_a_reversed_range_names_the_mend() -> None:
    with pytest.raises(UsageError) as error:
        parse_steps("5:2")
    assert str(error.value) == '"--steps 5:2" must be START:END with START < END; got 5 >= 2. Try --steps 2:5.'


@pytest.mark.parametrize("text", ["", "a", "1:", "1:2:3", "-1", "0", "3:3"])
def test_other_forms_of_steps_are_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_steps(text)
