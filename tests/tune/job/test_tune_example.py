"""The example of tuning runs as its README says, and what it makes can be lowered within its own metric."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from jumar.tune.graph.capture.source import load_graphs

FOLDER = Path(__file__).parents[3] / "examples" / "tuning"


@pytest.fixture
def digits(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    import digits

    yield digits
    sys.modules.pop("digits", None)


def test_the_data_are_the_same_for_the_same_seed(digits) -> None:
    images, labels = digits.digits(4, seed=3)
    again = digits.digits(4, seed=3)
    assert torch.equal(images, again[0])
    assert torch.equal(labels, again[1])
    assert images.shape == (4, 1, 28, 28)
    assert not torch.equal(images, digits.digits(4, seed=4)[0])


def test_its_metric_is_the_share_of_digits_that_change(digits) -> None:
    scores = torch.eye(4)
    assert digits.wrong_digits((scores,), (scores,)) == 0
    assert digits.wrong_digits((scores,), (scores.roll(1, 0),)) == 1


def test_the_factory_is_a_model_for_tuning(digits, tmp_path: Path) -> None:
    state = torch.random.get_rng_state()
    with torch.random.fork_rng(devices=[]):
        (captured,) = load_graphs(f"{FOLDER / 'digits.py'}:network", folder=tmp_path)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert captured.graph.inputs[captured.graph.variables[0]].shape == (16, 1, 28, 28)
    assert not captured.reason_not_tuned


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="torch.compile in the example is tried on Linux")
def test_the_script_recognises_digits() -> None:
    command = [sys.executable, "recognise.py", "--batches", "4"]
    done = subprocess.run(command, cwd=FOLDER, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    right = re.fullmatch(r"(\d+\.\d) % right, \d+\.\d{3} ms for 16 images\n", done.stdout)
    assert right is not None
    assert float(right[1]) > 60
