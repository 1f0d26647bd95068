from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from jumar.capture import record
from jumar.comparison import Comparison, compare
from jumar.comparison.diagnosis import diagnose
from jumar.show.compare.page import compare_page
from jumar.show.compare.summary import summary_text

AT = 6


def train(folder: Path, fault: str = "", num_steps: int = 10) -> Path:
    """Record a training of which the first step alone is kept in detail."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 2))
    data = torch.randn(num_steps + 1, 8, 4)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    with record(folder, steps=(0, 1), levels=("module",), values="stats"):
        for step in range(num_steps):
            if step == AT and fault == "lr":
                optimizer.param_groups[0]["lr"] *= 1.002
            if step == AT and fault == "state":
                for state in optimizer.state.values():
                    state["exp_avg_sq"].mul_(1.5)
            loss = model(data[step + (fault == "data" and step >= AT)]).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return folder


def compared(tmp_path: Path, fault: str) -> Comparison:
    return compare(train(tmp_path / "reference"), train(tmp_path / "target", fault))


@pytest.mark.parametrize(
    ("fault", "words"),
    [("lr", "Adam has another lr: 0.01 against 0.01002"), ("state", "exp_avg_sq of Adam"), ("data", "in step 7")],
)
def test_a_change_between_the_steps_in_detail_is_found(tmp_path: Path, fault: str, words: str) -> None:
    found = compared(tmp_path, fault)
    assert found.status == "diverge"
    assert found.headline.startswith(f"The runs drift apart from step {AT} on: ")
    assert words in found.headline
    assert "10 of 10 steps, 1 step in detail" in found.headline
    assert found.findings[0].code == "JM318"
    assert len(found.losses) == 10
    text = summary_text(found, diagnose(found, tmp_path / "reference", tmp_path / "target"))
    assert f"--steps {AT - 1}:{AT + 2}" in text


def test_equal_runs_agree_over_all_steps(tmp_path: Path) -> None:
    found = compared(tmp_path, "")
    assert found.status == "agree"
    assert "losses, settings and norms of 10 of 10 steps, 1 step in detail" in found.headline
    assert [pair.agrees for pair in found.losses] == [True] * 10
    found.to_json()


def test_the_page_shows_how_far_the_runs_are_apart(tmp_path: Path) -> None:
    sections = compare_page(compared(tmp_path, "state")).sections
    titles = [getattr(block, "title", "") for section in sections for block in section.blocks]
    assert any("How far the runs are apart" in title for title in titles)


def test_a_recording_of_an_older_release_has_no_history_and_is_compared(tmp_path: Path) -> None:
    reference, target = train(tmp_path / "reference"), train(tmp_path / "target")
    (target / "history-rank-0.bin").unlink()
    found = compare(reference, target)
    assert found.status == "agree"
    assert not found.drifts
    assert "norms" not in found.headline
