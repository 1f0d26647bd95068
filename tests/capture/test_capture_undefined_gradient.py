"""An output that the loss does not depend on has no gradient: autograd hands None to the hooks of some operators."""

from __future__ import annotations

from pathlib import Path

import torch

import jumar
from jumar.recording import Recording


class _HalfUsed(torch.autograd.Function):
    """Two results; the gradient of the second is None where nothing reads it."""

    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        return x * 2, x * 3

    @staticmethod
    def backward(ctx, first, second):
        return None if first is None else first * 2


class _Layer(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return _HalfUsed.apply(x)[1]


def test_a_module_whose_input_gets_no_gradient_is_recorded(tmp_path: Path) -> None:
    weight = torch.nn.Parameter(torch.ones(3))
    layer = _Layer()
    optimizer = torch.optim.SGD([weight], lr=0.1)
    with jumar.record(tmp_path / "run"):
        for _ in range(2):
            (layer(weight * 1.0).sum() * 0 + weight.sum()).backward()
            optimizer.step()
    recording = Recording.open(tmp_path / "run")
    assert recording.steps(0) == [0, 1]
    assert recording.ends[0].not_covered == ()
