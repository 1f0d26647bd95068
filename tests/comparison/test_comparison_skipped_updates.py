"""Updates that a real GradScaler skips in one run only: named, and whether its scale accounts for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from jumar.base.findings import Finding, Severity
from jumar.capture import record
from jumar.comparison import Comparison, compare
from jumar.recording import Recording
from jumar.show.compare.summary import summary_text


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    state, kernels = torch.get_rng_state(), torch.backends.mkldnn.enabled
    torch._C._set_mkldnn_enabled(False)  # its float16 is slow on some processors
    yield
    torch._C._set_mkldnn_enabled(kernels)
    torch.set_rng_state(state)


def trained(
    folder: Path,
    *,
    half: bool = True,
    scale: float | None = 2.0**10,
    steps: int = 3,
    gain: float = 1.0,
    spoilt: int | None = None,
    values: str = "sketch",
) -> Recording:
    """Train three layers under the observer. `scale` None: without a scaler; `gain` multiplies the loss; in the step
    `spoilt` a gradient has an Inf that no scale made."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 32), nn.GELU(), nn.Linear(32, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3 / gain)
    scaler = torch.amp.GradScaler("cpu", enabled=scale is not None, init_scale=scale or 1.0)
    data = torch.Generator().manual_seed(5)
    with record(str(folder), model=model, values=values):  # type: ignore[arg-type]  # a word of the command line
        for step in range(steps):
            inputs, targets = torch.randn(8, 16, generator=data), torch.randint(0, 4, (8,), generator=data)
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.float16, enabled=half):
                out = model(inputs)
            loss = gain * functional.cross_entropy(out.float(), targets)
            scaler.scale(loss).backward()
            if step == spoilt:
                model[2].weight.grad[0, 0] = float("inf")
            scaler.step(optimizer)
            scaler.update()
    return Recording.open(folder)


def skipped(comparison: Comparison) -> Finding:
    return next(finding for finding in comparison.findings if finding.code == "JM316")


@pytest.fixture
def runs(tmp_path: Path) -> Any:
    def both(reference: dict[str, Any], target: dict[str, Any]) -> tuple[Recording, Recording]:
        return trained(tmp_path / "reference", **reference), trained(tmp_path / "target", **target)

    return both


@pytest.mark.parametrize("values", ["stats", "sketch", "tensors"])
def test_a_scale_that_is_too_great_in_one_run_is_named_and_no_divergence(runs, values) -> None:
    comparison = compare(*runs({"values": values}, {"values": values, "scale": 2.0**21}))
    assert comparison.status == "agree", comparison.headline
    assert (skipped(comparison).severity, skipped(comparison).where.step) == (Severity.WARNING, 0)
    assert skipped(comparison).evidence["side"] == "target"
    assert comparison.steps == (0,)
    assert [pair.agrees for pair in comparison.losses] == [True, None, None]
    assert "JM316" in summary_text(comparison) or "skipped" in comparison.headline


def test_the_reference_may_be_the_one_that_skips(runs) -> None:
    comparison = compare(*runs({"scale": 2.0**21}, {}))
    assert (comparison.status, skipped(comparison).evidence["side"]) == ("agree", "reference")


def test_a_float32_reference_without_a_scaler_is_one_update_ahead(runs) -> None:
    comparison = compare(*runs({"half": False, "scale": None}, {"scale": 2.0**22}))
    assert comparison.status == "agree", comparison.headline
    assert skipped(comparison).severity is Severity.WARNING


def test_an_inf_that_no_scale_made_is_an_error_at_the_usual_scale(runs) -> None:
    comparison = compare(*runs({"scale": 2.0**16}, {"scale": 2.0**16, "spoilt": 1}))
    assert comparison.status == "diverge"
    assert comparison.first_divergence.step == 1
    assert (skipped(comparison).severity, skipped(comparison).where.step) == (Severity.ERROR, 1)
    assert "far below" in skipped(comparison).message


def test_gradients_that_overflow_without_any_scale_are_an_error(runs) -> None:
    comparison = compare(*runs({"half": False, "scale": None, "gain": 1e7}, {"scale": 1.0, "gain": 1e7}))
    assert comparison.status == "diverge"
    assert "at a scale of 1 or less" in skipped(comparison).message
    assert skipped(comparison).severity is Severity.ERROR


def test_updates_that_both_skip_are_no_finding(runs) -> None:
    comparison = compare(*runs({"scale": 2.0**21}, {"scale": 2.0**21}))
    assert comparison.status == "agree", comparison.headline
    assert "JM316" not in [finding.code for finding in comparison.findings]


def test_scales_that_differ_and_skip_nothing_are_no_finding(runs) -> None:
    comparison = compare(*runs({"scale": 2.0**6}, {"scale": 2.0**10}))
    assert comparison.status == "agree", comparison.headline
    assert "JM316" not in [finding.code for finding in comparison.findings]
