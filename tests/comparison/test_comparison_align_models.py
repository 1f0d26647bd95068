"""Real trainings written otherwise: the same calculation agrees, and what is not the same is named."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from jumar.capture import record
from jumar.comparison import Comparison, compare


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


class Norm(nn.LayerNorm):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        centred = x - x.mean(-1, keepdim=True)
        return centred * torch.rsqrt(centred.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight + self.bias


class Product(nn.Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.matmul(x, self.weight.t()) + self.bias


class Block(nn.Module):
    def __init__(self, form: str) -> None:
        super().__init__()
        self.norm = (Norm if form == "norm" else nn.LayerNorm)(16)
        self.qkv, self.out = nn.Linear(16, 48), nn.Linear(16, 16)
        self.fc = (Product if form == "linear" else nn.Linear)(16, 16)
        self.form = form

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = (t.view(batch, length, 2, 8).transpose(1, 2) for t in self.qkv(self.norm(x)).split(width, 2))
        if self.form == "attention":
            y = functional.scaled_dot_product_attention(q, k, v)
        else:
            y = functional.softmax(q @ k.transpose(-2, -1) / math.sqrt(8), -1) @ v
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        return x + functional.gelu(self.fc(x))


class Net(nn.Module):
    def __init__(self, form: str, layers: int = 3) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(32, 16), nn.Linear(16, 32)
        self.name = "layers" if form == "renamed" else "blocks"
        setattr(self, self.name, nn.ModuleList(Block(form) for _ in range(layers)))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)
        for block in getattr(self, self.name):
            x = block(x)
        return self.head(x)


def trained(folder: Path, form: str = "", *, micro: int = 1, extra: int = -1, **optimizer: Any) -> Path:
    """Record two steps; `form` says what is written otherwise, `extra` before which block one is inserted."""
    torch.manual_seed(0)
    model = Net(form)
    if extra >= 0:
        model.blocks.insert(extra, Block(""))
    update = torch.optim.AdamW(model.parameters(), 1e-3, **optimizer)
    generator = torch.Generator().manual_seed(1)
    with record(str(folder), model=model):
        for _ in range(2):
            tokens = torch.randint(0, 32, (4, 8), generator=generator)
            update.zero_grad()
            for part in tokens.chunk(micro):
                logits = model(part).flatten(0, 1)
                (functional.cross_entropy(logits, part.flatten()) / micro).backward()
            update.step()
    return folder


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained(tmp_path_factory.mktemp("reference") / "a")


def codes(comparison: Comparison) -> set[str]:
    return {finding.code for finding in comparison.findings}


@pytest.mark.parametrize(
    ("form", "settings", "expected"),
    [
        ("", {}, set()),
        ("attention", {}, {"JM311"}),
        ("norm", {}, {"JM311"}),
        ("linear", {}, {"JM311"}),
        ("renamed", {}, {"JM312"}),
        ("", {"fused": True}, {"JM311"}),
        ("", {"foreach": True}, set()),
        ("", {"micro": 2}, {"JM315"}),
    ],
)
def test_the_same_calculation_written_otherwise_agrees(reference, tmp_path, form, settings, expected) -> None:
    comparison = compare(reference, trained(tmp_path / "b", form, **settings))
    assert comparison.status == "agree", comparison.headline
    assert expected <= codes(comparison) <= expected | {"JM304", "JM306", "JM308", "JM310"}
    assert comparison.num_operators["agree"] > 0


def test_an_inserted_block_is_the_first_divergence_and_later_ones_keep_their_counterparts(reference, tmp_path) -> None:
    comparison = compare(reference, trained(tmp_path / "b", extra=1))
    first = comparison.first_divergence
    assert first is not None
    assert (first.reference_name, first.module_path.split(".")[:2]) == ("", ["blocks", "1"])
    forward = [call for call in comparison.unmatched_target if call.phase == "forward"]
    assert {call.module_path.split(".")[1] for call in forward} == {"1"}
    assert not [call for call in comparison.unmatched_reference if not call.layout_only]


def test_another_epsilon_of_the_optimizer_is_named_with_both_values(reference, tmp_path) -> None:
    comparison = compare(reference, trained(tmp_path / "b", eps=1e-5))
    assert comparison.status == "diverge"
    messages = [finding.message for finding in comparison.findings if finding.code == "JM313"]
    assert messages
    assert "eps 1e-08 against 1e-05" in messages[0]
