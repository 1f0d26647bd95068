"""A model has one key whether it is captured by itself or comes from torch.compile, and its plan then runs it."""

from __future__ import annotations

import copy
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import graph_models as models
import pytest
import torch
from backend_models import fill_bank
from torch import nn

from jumar.tune.backend import knowledge
from jumar.tune.backend.compilation import Compilation
from jumar.tune.backend.entry import jumar
from jumar.tune.graph.capture.capture import graph_of_module
from jumar.tune.graph.capture.factory import graphs_of_pieces
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


@pytest.fixture
def untuned(monkeypatch: pytest.MonkeyPatch) -> list[Compilation]:
    """Let graphs that are not known run as they are, and note them."""
    met: list[Compilation] = []

    def run_as_it_is(self: Compilation) -> Any:
        met.append(self)
        return self.module.forward

    monkeypatch.setattr(Compilation, "untuned", run_as_it_is)
    return met


def encoder(**more: Any) -> tuple[nn.Module, tuple[Any, ...]]:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, **more)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), (torch.randn(2, 5, 16),)


def padded_encoder() -> tuple[nn.Module, tuple[Any, ...]]:
    model, (words,) = encoder()
    return model, (words, None, torch.tensor([[False] * 5, [False] * 3 + [True] * 2]))


class Attends(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention, self.last = nn.MultiheadAttention(16, 2, batch_first=True), nn.Linear(16, 4)

    def forward(self, x: torch.Tensor, padding: torch.Tensor) -> torch.Tensor:
        return self.last(x + self.attention(x, x, x, key_padding_mask=padding, need_weights=False)[0])


def attends() -> tuple[nn.Module, tuple[Any, ...]]:
    torch.manual_seed(0)
    return Attends(), (torch.randn(2, 5, 16), torch.zeros(2, 5, dtype=torch.bool))


def passes_on() -> tuple[nn.Module, tuple[Any, ...]]:
    return models.Function(lambda x, y: (x + y, None, y, 3)), (torch.ones(3), torch.arange(3.0))


def unpacks() -> tuple[nn.Module, tuple[Any, ...]]:
    def compute(x: torch.Tensor) -> torch.Tensor:
        query, key, value = x
        first, second = value.unbind(-1)
        return query @ key + first.sum() * second[0]

    return models.Function(compute), (torch.randn(3, 2, 2),)


@pytest.mark.parametrize(
    "factory",
    [
        encoder,
        lambda: encoder(norm_first=True, activation="gelu"),
        padded_encoder,
        attends,
        passes_on,
        unpacks,
        models.batch_statistics,
        models.cached_keys,
    ],
)
def test_a_model_that_was_captured_is_known_when_it_is_compiled(
    tmp_path: Path, untuned: list[Compilation], factory: Any
) -> None:
    model, args = factory()
    model.eval()
    graph = graph_of_module(model, args, folder=tmp_path).graph
    fill_bank(tmp_path, [graph]).close()
    other = copy.deepcopy(model)
    compiled = torch.compile(other, backend=jumar, options={"bank": str(tmp_path)})
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with torch.no_grad():
            pairs = [(compiled(*args), model(*args)) for _ in range(2)]
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
    for mine, theirs in pairs:
        leaves = zip(torch.utils._pytree.tree_leaves(mine), torch.utils._pytree.tree_leaves(theirs), strict=True)
        assert all(torch.allclose(a, b, atol=1e-6) if isinstance(a, torch.Tensor) else a == b for a, b in leaves)
    assert untuned == []
    assert all(torch.allclose(a, b) for a, b in zip(other.buffers(), model.buffers(), strict=True))


def test_an_encoder_on_its_fast_path_has_the_same_key(
    tmp_path: Path, untuned: list[Compilation], caplog: pytest.LogCaptureFixture
) -> None:
    model, args = encoder()
    model.eval()
    fill_bank(tmp_path, [graph_of_module(model, args, folder=tmp_path).graph]).close()
    caplog.set_level(logging.INFO, "jumar.tune")
    with torch.no_grad():
        made = torch.compile(model, backend=jumar, options={"bank": str(tmp_path)})(*args)
        assert torch.allclose(made, model(*args), atol=1e-5)
    assert untuned == []
    assert "is computed as the bank says" in caplog.text


class Detects(nn.Module):
    """How many boxes it returns depends on their scores."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 5, 1))

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        boxes = self.body(image).flatten(2).transpose(1, 2)[0]
        scores = boxes[:, 4].sigmoid()
        kept = scores > 0.5
        return boxes[kept] * 2, scores[kept]


def test_pieces_of_a_model_are_known_with_their_buffers_as_weights(tmp_path: Path, untuned: list[Compilation]) -> None:
    torch.manual_seed(0)
    model, image = Detects().eval(), torch.randn(1, 3, 10, 10)
    pieces = graphs_of_pieces(model, (image,), {}, folder=tmp_path, name="net", origin="")
    fill_bank(tmp_path, [piece.graph for piece in pieces]).close()
    with torch.no_grad():
        made = torch.compile(model, backend=jumar, options={"bank": str(tmp_path)})(image)
        expected = model(image)
    assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(made, expected, strict=True))
    assert pieces[0].graph.variables == [0]
    assert all("conv2d" not in str(one.module.graph) for one in untuned)


class Keeps(nn.Module):
    """What it keeps is written to outside of the graph that makes both."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made = self.layer(x).relu()
        kept = made.clone()
        torch._dynamo.graph_break()
        made.mul_(2)
        return made + kept


def test_a_copy_of_a_piece_keeps_its_values_when_the_other_is_written_to(
    tmp_path: Path, untuned: list[Compilation]
) -> None:
    torch.manual_seed(0)
    model, x = Keeps().eval(), torch.randn(2, 4)
    pieces = graphs_of_pieces(model, (x,), {}, folder=tmp_path, name="net", origin="")
    fill_bank(tmp_path, [piece.graph for piece in pieces]).close()
    with torch.no_grad():
        made = torch.compile(model, backend=jumar, options={"bank": str(tmp_path)})(x)
        assert torch.allclose(made, model(x))
        assert torch.allclose(made, 3 * model.layer(x).relu())
    assert all("linear" not in str(one.module.graph) for one in untuned)


def test_a_model_that_follows_the_default_dtype_is_tuned_for_float32_alone(
    tmp_path: Path, untuned: list[Compilation], caplog: pytest.LogCaptureFixture
) -> None:
    model, x = models.Function(lambda x: x / 2), torch.arange(4)
    fill_bank(tmp_path, [graph_of_module(model, (x,), folder=tmp_path).graph]).close()
    for num_untuned, dtype in enumerate((torch.float32, torch.float64)):
        torch.set_default_dtype(dtype)
        try:
            with torch.no_grad():
                made = torch.compile(model, backend=jumar, options={"bank": str(tmp_path)})(x)
        finally:
            torch.set_default_dtype(torch.float32)
        assert (made.dtype, len(untuned)) == (dtype, num_untuned)
    assert "computes in the default dtype" in caplog.text
