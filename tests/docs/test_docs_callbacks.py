"""The page of callbacks: each block runs where its library is installed, and records the steps that it names."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from jumar.recording import Recording

PAGE = (Path(__file__).parents[2] / "docs" / "guide-callbacks.md").read_text("utf-8")
BLOCKS = dict(re.findall(r"^```python name=(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
pytestmark = pytest.mark.slow


def test_the_page_has_a_block_for_each_way() -> None:
    assert sorted(BLOCKS) == ["accelerate", "lightning", "plain", "transformers"]


@pytest.mark.parametrize("name", sorted(BLOCKS))
def test_a_block_records_the_steps_that_it_names(name: str, tmp_path: Path) -> None:
    if name != "plain" and importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} is not installed")
    (tmp_path / "block.py").write_text(BLOCKS[name])
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "WANDB_DISABLED": "true"}
    done = subprocess.run(
        [sys.executable, "block.py"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    recording = Recording.open(tmp_path / "recording")
    assert list(recording.steps()) == [0, 1, 2]
    assert any("layer" in row.module_path or name in ("plain", "accelerate") for row in recording.rows(0))
    if name == "plain":
        assert (tmp_path / "prof" / "profile.json").is_file()
