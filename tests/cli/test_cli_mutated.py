"""Every reader meets the same damage: a right result or one sentence, in bounded time and memory, nothing outside."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

READERS = Path(__file__).with_name("mutated_readers.py")
NAMES = (
    "advise-run", "advise-step", "assess-step", "overflow-step", "replay-tensors", "list-tensors", "compare-end",
    "notebook", "python", "shell", "yaml", "assess", "log", "checkpoint", "checkpoint-list", "artefact", "bank",
    "bank-verify", "bank-lines", "pt2", "onnx", "aoe", "profile",
)  # fmt: skip
NUM_SEEDS = 15
MEMORY_BYTES = 8 << 30
"""Of address space, beyond what the process has when it begins to read."""


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_damage_is_told_in_one_sentence(tmp_path: Path, name: str) -> None:
    folders = {
        "TMPDIR": tmp_path / "temporary",
        "XDG_CACHE_HOME": tmp_path / "cache",
        "XDG_DATA_HOME": tmp_path / "data",
    }
    for folder in (*folders.values(), tmp_path / "work"):
        folder.mkdir()
    command = [
        sys.executable,
        "-W",
        "ignore",
        str(READERS),
        name,
        str(tmp_path / "work"),
        str(NUM_SEEDS),
        str(MEMORY_BYTES),
    ]
    environment = {**os.environ, **{key: str(folder) for key, folder in folders.items()}}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    slowest = found.pop("slowest", None)
    assert found == {}
    assert slowest is not None


def test_every_reader_is_in_the_table() -> None:
    """The names are listed here because the other file imports what tests of the command line need not."""
    text = READERS.read_text("utf-8")
    table = text[text.index("READERS: dict") : text.index('"""What makes a good file')]
    assert all(f'    "{name}": (' in table for name in NAMES)
    assert table.count('": (') == len(NAMES)
