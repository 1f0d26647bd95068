"""A model that is compiled for sizes that vary runs by the plan of each size that was tuned."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
import torch
from backend_models import fill_bank
from plan_models import Tokens
from torch import fx, nn

from jumar.tune.backend import entry, gears, knowledge
from jumar.tune.backend.entry import jumar
from jumar.tune.graph.capture.capture import graph_of_module
from jumar.tune.model import notes


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    _forget()
    yield
    _forget()


def _forget() -> None:
    torch._dynamo.reset()
    knowledge.forget()
    notes.forget()


class Scaled(nn.Module):
    """Settings that are floats, in PyTorch's own modules and beside them."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))
        self.scale = 0.5

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.layers(x)) * self.scale


def compiled(model: nn.Module, folder: Path, sizes: list[tuple[int, ...]]) -> nn.Module:
    graphs = [graph_of_module(model, (torch.randn(size),), folder=folder).graph for size in sizes]
    fill_bank(folder, graphs).close()
    return torch.compile(model, backend=jumar, dynamic=True, options={"bank": str(folder)})


@pytest.mark.parametrize("is_attention", [False, True])
def test_each_tuned_size_runs_by_its_plan_and_others_run_untuned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, is_attention: bool
) -> None:
    torch.manual_seed(0)
    model = Tokens().eval() if is_attention else nn.Sequential(nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 3)).eval()
    monkeypatch.setattr(gears, "for_all_sizes", lambda compilation: compilation.module.forward)
    caplog.set_level(logging.INFO, "jumar.tune")
    first, second, third = ((2, 5, 16), (4, 5, 16), (3, 5, 16))
    fast = compiled(model, tmp_path, [first, second])
    with torch.no_grad():
        for size in (first, second, third, first, second, third):
            x = torch.randn(size)
            assert torch.allclose(fast(x), model(x), atol=1e-6)
    assert caplog.text.count("is computed as the bank says") == 2
    assert caplog.text.count("runs untuned for sizes that are not tuned") == 1


def test_floats_of_the_model_are_no_sizes_and_others_than_the_first_are_computed_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    torch.manual_seed(0)
    model = Scaled().eval()
    monkeypatch.setattr(entry, "for_all_sizes", lambda compilation: compilation.module.forward)
    caplog.set_level(logging.INFO, "jumar.tune")
    fast = compiled(model, tmp_path, [(2, 3, 8, 8), (4, 3, 8, 8)])
    with torch.no_grad():
        for rows, scale in ((2, 0.5), (4, 0.5), (4, 3.5), (2, 0.5)):
            model.scale = scale
            x = torch.randn(rows, 3, 8, 8)
            assert torch.allclose(fast(x), model(x), atol=1e-6)
    assert caplog.text.count("is computed as the bank says") == 2
    assert "untuned" not in caplog.text


def test_any_number_of_graphs_is_compiled_for_all_sizes() -> None:
    met: list[fx.GraphModule] = []

    def backend(module: fx.GraphModule, _arguments: Sequence[object]) -> Callable[..., object]:
        met.append(module)
        return module.forward

    for width in range(1, torch._dynamo.config.recompile_limit + 4):
        graph = fx.symbolic_trace(nn.Linear(2, width))
        fast = torch.compile(gears._with_code_of_its_own(graph), backend=backend, dynamic=True)
        x = torch.randn(3, 2)
        assert torch.equal(fast(x), graph(x))
    assert len(met) == torch._dynamo.config.recompile_limit + 3


def test_more_sizes_than_gears_run_untuned_without_being_looked_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = nn.Linear(4, 3).eval()
    looked_up: list[int] = []
    monkeypatch.setattr(gears, "for_all_sizes", lambda compilation: compilation.module.forward)
    monkeypatch.setattr(gears, "GREATEST_GEARS", 3)
    fast = compiled(model, tmp_path, [(2, 4)])
    take = gears.tuned
    monkeypatch.setattr(gears, "tuned", lambda *rest: looked_up.append(1) or take(*rest))
    with torch.no_grad():
        for rows in range(2, 9):
            x = torch.randn(rows, 4)
            assert torch.allclose(fast(x), model(x), atol=1e-6)
    assert len(looked_up) == 1


def test_a_model_that_is_not_in_the_bank_is_looked_up_for_a_few_sizes_and_says_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    compiled(nn.Linear(3, 3).eval(), tmp_path, [(2, 3)])
    model = nn.Linear(4, 3).eval()
    monkeypatch.setattr(gears, "for_all_sizes", lambda compilation: compilation.module.forward)
    caplog.set_level(logging.INFO, "jumar.tune")
    fast = torch.compile(model, backend=jumar, dynamic=True, options={"bank": str(tmp_path)})
    with torch.no_grad():
        for rows in range(2, 14):
            fast(torch.randn(rows, 4))
    assert caplog.text.count("the bank has no plan") == gears.GREATEST_MISSES
    assert [record.levelname for record in caplog.records if record.name == "jumar.tune"].count("WARNING") == 0


@pytest.mark.slow  # TorchInductor compiles
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of PyTorch's own modules, when TorchInductor imports them
def test_sizes_that_are_not_tuned_are_compiled_once_for_all(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "jumar.tune")
    model = nn.Sequential(nn.Linear(16, 8), nn.ReLU()).eval()
    fast = compiled(model, tmp_path, [(2, 16)])
    with torch.no_grad():
        for rows in (2, 3, 5, 2, 7):
            x = torch.randn(rows, 16)
            assert torch.allclose(fast(x), model(x), atol=1e-6)
    assert "is not compiled for all sizes" not in caplog.text
