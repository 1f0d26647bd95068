"""The blocks of the README work as they stand there, one after another, in a fresh folder with the shipped examples."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SHOWN = re.compile(r"[^\d\s.,:%<>()+→✓`-]{4,}")
FINDINGS = ("jumar compare", "jumar advise", "jumar doctor", "jumar tune")
"""Commands whose exit code may be 1: they report what they find."""
MOST_WORDS = 900


def blocks() -> list[tuple[str, str]]:
    """Return the language and the text of each block, but for those that install."""
    return [(found[1], found[2]) for found in BLOCK.finditer(README) if "pip install" not in found[2]]


def run(command: str, folder: Path) -> str:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    home = {"HOME": str(folder / "home"), "XDG_DATA_HOME": str(folder / "home" / "data")}
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env={**os.environ, **home, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    allowed = {0, 1} if command.startswith(FINDINGS) else {0}
    assert done.returncode in allowed, f"{command}\n{done.stdout}{done.stderr}"
    assert "Traceback" not in done.stderr, f"{command}\n{done.stderr}"
    return done.stdout + done.stderr


def test_the_readme_is_read_in_minutes() -> None:
    assert len(README.split()) < MOST_WORDS
    assert README.count("```bash\n") > 6


def test_the_two_set_up_commands_name_what_is_there() -> None:
    install = [text for _, text in BLOCK.findall(README) if "pip install" in text]
    assert len(install) == 2
    assert all("-c constraints.txt" in text and (ROOT / "constraints.txt").is_file() for text in install)
    assert "examples/imagenet/train.py" in install[0]


def test_the_blocks_work_one_after_another_and_say_what_is_shown(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    (tmp_path / "home").mkdir()
    said = ""
    for language, text in blocks():
        if language == "bash":
            said = "".join(run(command, tmp_path) for command in text.splitlines())
        elif language == "" and "onnxruntime" not in text:  # which plan is the fastest, the machine decides
            lacking = {word for word in SHOWN.findall(text) if word not in said}
            assert not lacking, f"{lacking} is not in\n{said}"
