"""Regions of `torch.compile`: recorded operator by operator where that changes nothing, at their borders else."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from jumar.capture import record
from jumar.capture.observe.compiled import known_codes
from jumar.recording import Recording

HAS_COMPILER = shutil.which("g++") is not None or shutil.which("clang++") is not None


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.fc1, self.fc2 = nn.LayerNorm(8), nn.Linear(8, 16), nn.Linear(16, 8)

    def forward(self, data: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = data + self.fc2(nn.functional.gelu(self.fc1(self.norm(data))))
        return result


class GPT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.head = nn.Embedding(16, 8), nn.Linear(8, 16)
        self.blocks = nn.ModuleList([Block(), Block()])

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        hidden = self.tokens(tokens)
        for block in self.blocks:
            hidden = block(hidden)
        logits: torch.Tensor = self.head(hidden)
        return logits


@pytest.fixture(autouse=True)
def _fresh_compiler(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What other tests of this process had compiled is none of these recordings' business."""
    torch._dynamo.reset()
    before = {id(code) for code in known_codes()}
    monkeypatch.setattr(
        "jumar.capture.session.session.known_codes",
        lambda: [code for code in known_codes() if id(code) not in before or code.co_filename == __file__],
    )
    yield
    torch._dynamo.reset()


def train(compile_: Callable[[nn.Module], Any], num_steps: int = 3) -> list[float]:
    torch._dynamo.reset()
    torch.manual_seed(0)
    model = GPT()
    updates = torch.optim.AdamW(model.parameters(), lr=1e-2)
    compiled = compile_(model)
    losses = []
    for _ in range(num_steps):
        updates.zero_grad()
        tokens = torch.randint(0, 16, (2, 4))
        loss = nn.functional.cross_entropy(compiled(tokens).view(-1, 16), tokens.view(-1))
        loss.backward()
        updates.step()
        losses.append(loss.item())
    return losses


def places(recording: Recording, name: str, step: int = 1) -> list[tuple[str, str, str]]:
    rows = [row for row in recording.rows(step) if row.name == name]
    return [(row.phase, row.module_path, row.source.rpartition(":")[0].rpartition("/")[2]) for row in rows]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_backend_that_runs_graphs_as_they_are_is_recorded_by_operator_with_the_same_bits(
    tmp_path: Path, backend: str
) -> None:
    def compile_(model: nn.Module) -> Any:
        return torch.compile(model, backend=backend)

    expected = train(compile_)
    with record(tmp_path / "r"):
        losses = train(compile_)
    recording = Recording.open(tmp_path / "r")
    assert losses == expected
    (sentence,) = recording.ends[0].not_covered
    assert sentence.startswith("modules called inside torch.compile regions have no rows of their own: forward (")
    here = Path(__file__).name
    assert places(recording, "aten::gelu") == [("forward", f"blocks.{number}", here) for number in (0, 1)]
    assert places(recording, "aten::gelu_backward") == [("backward", f"blocks.{number}", here) for number in (1, 0)]
    products = {path for _, path, _ in places(recording, "aten::addmm")}
    assert products == {"blocks.0.fc1", "blocks.0.fc2", "blocks.1.fc1", "blocks.1.fc2", "head"}


def test_the_forward_operators_of_a_compiled_run_are_those_of_the_uncompiled_one(tmp_path: Path) -> None:
    found = []
    for name in ("plain", "eager"):
        with record(tmp_path / name):
            train(lambda model, name=name: torch.compile(model, backend="eager") if name == "eager" else model)
        rows = Recording.open(tmp_path / name).rows(1)
        found.append([(row.module_path, row.name, row.outputs[0].l2) for row in rows if row.name == "aten::addmm"])
    assert found[0] == found[1]


def _own_backend(module: torch.fx.GraphModule, inputs: Any) -> Callable[..., Any]:
    """Stand for a back end that makes kernels: what it returns is not the graph."""

    def kernels(*args: Any) -> Any:
        return module(*args)

    return kernels


def test_a_backend_with_kernels_of_its_own_is_recorded_at_the_borders_and_says_so(tmp_path: Path) -> None:
    def compile_(model: nn.Module) -> Any:
        return torch.compile(model, backend=_own_backend)

    expected = train(compile_)
    with record(tmp_path / "r"):
        losses = train(compile_)
    recording = Recording.open(tmp_path / "r")
    assert losses == expected
    borders, modules = recording.ends[0].not_covered
    assert "recorded at their borders only" in borders
    assert "no rows of their own" in modules
    (row,) = [row for row in recording.rows(1) if row.name == "higher_order::compiled.forward"]
    assert row.outputs[0].l2 is not None
    assert [row.phase for row in recording.rows(1) if row.name == "compiled.forward"] == ["backward"]
    assert places(recording, "aten::gelu") == []


def test_compiled_graph_records_each_operator_and_says_that_no_kernels_ran(tmp_path: Path) -> None:
    def compile_(model: nn.Module) -> Any:
        return torch.compile(model, backend=_own_backend)

    with record(tmp_path / "r", compiled="graph"):
        train(compile_)
    recording = Recording.open(tmp_path / "r")
    instead, modules = recording.ends[0].not_covered
    assert "operator by operator, not in compiled kernels" in instead
    assert "no rows of their own" in modules
    assert len(places(recording, "aten::gelu")) == 2


def test_what_was_compiled_and_run_before_the_recording_is_said_to_be_not_covered(tmp_path: Path) -> None:
    model = GPT()
    compiled = torch.compile(model, backend=_own_backend)
    tokens = torch.zeros(1, 2, dtype=torch.long)
    compiled(tokens)
    with record(tmp_path / "r"):
        compiled(tokens)
    (sentence,) = Recording.open(tmp_path / "r").ends[0].not_covered
    assert "compiled before" in sentence
    assert "forward (" in sentence


def test_a_recording_leaves_no_hook_behind(tmp_path: Path) -> None:
    with record(tmp_path / "r"):
        nn.Linear(2, 2)(torch.ones(1, 2))
    globals_ = {name: value for name, value in vars(nn.modules.module).items() if name.startswith("_global_")}
    assert "_global_forward_hooks" in globals_
    assert not any(value for value in globals_.values() if isinstance(value, dict))


def test_a_region_recorded_once_runs_as_it_was_made_after_the_recording(tmp_path: Path) -> None:
    model = GPT()
    compiled = torch.compile(model, backend="eager")
    tokens = torch.zeros(1, 2, dtype=torch.long)
    with record(tmp_path / "r"):
        inside = compiled(tokens)
    assert torch.equal(compiled(tokens), inside)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:`torch.jit.script:DeprecationWarning")  # TorchInductor's own import
@pytest.mark.skipif(not HAS_COMPILER, reason="inductor needs a C++ compiler, and there is none")
def test_inductor_keeps_its_bits_when_it_is_recorded_at_the_borders(tmp_path: Path) -> None:
    expected = train(torch.compile)
    with record(tmp_path / "r"):
        losses = train(torch.compile)
    recording = Recording.open(tmp_path / "r")
    assert losses == expected
    assert "borders only" in recording.ends[0].not_covered[0]
    assert [row.name for row in recording.rows(1) if row.name.startswith("higher_order::compiled")]
