"""`jumar --version`: versions, dates of the tables, the verified set, without importing torch."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

import jumar
from jumar.cli.main import main


def test_the_version_says_what_is_installed_and_what_was_verified(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"jumar {jumar.__version__}"
    told = dict(line.split(maxsplit=1) for line in lines[1:])
    assert re.fullmatch(r"tables 20\d\d-\d\d-\d\d to 20\d\d-\d\d-\d\d, .*", told["NPU"])
    assert "torch 2." in told["verified"]
    assert told["torch"].startswith("2.")


def test_the_version_is_one_of_a_tag_or_between_two() -> None:
    assert re.fullmatch(r"\d+\.\d+(\.\d+)?(\.dev\d+)?", jumar.__version__)


def test_the_version_is_told_without_torch() -> None:
    program = "import sys; from jumar.cli.main import main; main(['--version']); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False"
