"""apex: what its classes become, and what is told to use in place of the others, calculates the same."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import pytest
import torch
from counterpart_cases import assert_same, converted, leaves, messages, run
from torch import Tensor

Step = Callable[[list[Tensor], list[Tensor], int], list[Tensor]]
"""Weights, gradients and the number of a step from 1 on → the weights after it."""


def normalized(x: Tensor, dims: int, eps: float, *, centre: bool) -> Tensor:
    """Return x over its root mean square in the last dimensions, after the mean is taken away where asked."""
    x = x.double()
    over = tuple(range(-dims, 0))
    if centre:
        x = x - x.mean(over, keepdim=True)
    return x / (x.square().mean(over, keepdim=True) + eps).sqrt()


@pytest.mark.parametrize("shape", [(4, 8), (3, 5, 7), (1, 1, 13), (2, 3, 4, 5)])
@pytest.mark.parametrize(
    ("name", "arguments", "eps", "dims", "affine"),
    [
        ("FusedLayerNorm", "", 1e-5, 1, True),
        ("FusedLayerNorm", ", eps=0.1", 0.1, 1, True),
        ("FusedLayerNorm", ", 1e-3, False", 1e-3, 1, False),
        ("FusedLayerNorm", ", memory_efficient=True", 1e-5, 2, True),
        ("FusedRMSNorm", "", 1e-5, 1, True),
        ("FusedRMSNorm", ", eps=1e-2, elementwise_affine=False", 1e-2, 1, False),
        ("FusedRMSNorm", "", 1e-5, 2, True),
    ],
)
def test_norms(name: str, arguments: str, eps: float, dims: int, affine: bool, shape: tuple[int, ...]) -> None:
    source = f"from apex.normalization import {name}\nlayer = {name}(shape{arguments}).cuda()\n"
    fill = "with torch.no_grad():\n    for p, start in zip(layer.parameters(), weights): p.copy_(start)\n"
    text = converted(f"import torch\n{source}{fill if affine else ''}out = layer(x.cuda())\n")
    (x,) = leaves(shape)
    centre = name == "FusedLayerNorm"
    weights = leaves(shape[-dims:], shape[-dims:], seed=1)
    expected = normalized(x, dims, eps, centre=centre)
    if affine:
        expected = expected * weights[0].double() + (weights[1].double() if centre else 0)
    found = run(text, x=x, shape=shape[-dims:], weights=weights)
    assert_same(found["out"], expected, [x])
    assert len(list(found["layer"].parameters())) == (0 if not affine else 2 if centre else 1)


def adam(lr: float, b1: float, b2: float, eps: float, decay: float, decoupled: bool) -> Step:
    m: dict[int, Tensor] = {}
    v: dict[int, Tensor] = {}

    def step(weights: list[Tensor], gradients: list[Tensor], t: int) -> list[Tensor]:
        new = []
        for at, (w, gradient) in enumerate(zip(weights, gradients, strict=True)):
            g = gradient if decoupled else gradient + decay * w
            m[at] = b1 * m.get(at, torch.zeros_like(w)) + (1 - b1) * g
            v[at] = b2 * v.get(at, torch.zeros_like(w)) + (1 - b2) * g * g
            update = (m[at] / (1 - b1**t)) / ((v[at] / (1 - b2**t)).sqrt() + eps)
            new.append(w - lr * (update + (decay * w if decoupled else 0)))
        return new

    return step


def sgd(lr: float, momentum: float, dampening: float, decay: float, nesterov: bool) -> Step:
    held: dict[int, Tensor] = {}

    def step(weights: list[Tensor], gradients: list[Tensor], t: int) -> list[Tensor]:
        new = []
        for at, (w, gradient) in enumerate(zip(weights, gradients, strict=True)):
            g = gradient + decay * w
            held[at] = g if at not in held else momentum * held[at] + (1 - dampening) * g
            new.append(w - lr * (g + momentum * held[at] if nesterov else held[at] if momentum else g))
        return new

    return step


def adagrad(lr: float, eps: float, decay: float) -> Step:
    held: dict[int, Tensor] = {}

    def step(weights: list[Tensor], gradients: list[Tensor], t: int) -> list[Tensor]:
        new = []
        for at, (w, gradient) in enumerate(zip(weights, gradients, strict=True)):
            g = gradient + decay * w
            held[at] = held.get(at, torch.zeros_like(w)) + g * g
            new.append(w - lr * g / (held[at].sqrt() + eps))
        return new

    return step


@pytest.mark.parametrize("shapes", [((5, 7), (7,)), ((1,), (3, 1, 13), (2, 2))])
@pytest.mark.parametrize(
    ("call", "formula"),
    [
        ("FusedAdam(ps)", lambda: adam(1e-3, 0.9, 0.999, 1e-8, 0.0, True)),
        ("FusedAdam(ps, lr=0.05, weight_decay=0.3)", lambda: adam(0.05, 0.9, 0.999, 1e-8, 0.3, True)),
        (
            "FusedAdam(ps, 0.05, betas=(0.5, 0.9), eps=1e-3, weight_decay=0.2, adam_w_mode=False)",
            lambda: adam(0.05, 0.5, 0.9, 1e-3, 0.2, False),
        ),
        ("FusedSGD(ps, lr=0.05)", lambda: sgd(0.05, 0, 0, 0, False)),
        ("FusedSGD(ps, 0.05, 0.9, 0.1, 0.2)", lambda: sgd(0.05, 0.9, 0.1, 0.2, False)),
        ("FusedSGD(ps, lr=0.05, momentum=0.9, nesterov=True)", lambda: sgd(0.05, 0.9, 0, 0, True)),
        ("FusedAdagrad(ps, lr=0.05, weight_decay=0.1)", lambda: adagrad(0.05, 1e-10, 0.1)),
    ],
)
def test_optimizers(call: str, formula: Callable[[], Step], shapes: Sequence[tuple[int, ...]]) -> None:
    text = converted(f"""
        import torch
        from apex.optimizers import {call.partition("(")[0]}
        ps = [torch.nn.Parameter(w.detach().clone().cuda()) for w in start]
        optimizer = {call}
        for gradients in steps:
            optimizer.zero_grad()
            for p, g in zip(ps, gradients):
                p.grad = g.cuda()
            optimizer.step()
    """)
    start = leaves(*shapes)
    torch.manual_seed(3)
    steps = [[torch.randn(shape) for shape in shapes] for _ in range(5)]
    found = run(text, start=start, steps=steps)["ps"]
    step, weights = formula(), [w.detach().double() for w in start]
    for number, gradients in enumerate(steps, 1):
        weights = step(weights, [g.double() for g in gradients], number)
    for p, expected in zip(found, weights, strict=True):
        assert p.device.type == "npu"
        torch.testing.assert_close(p.detach().cpu().double(), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    ("name", "call", "counterpart"),
    [
        ("optimizers.FusedLAMB", "FusedLAMB(ps)", "NpuFusedLamb"),
        ("optimizers.FusedNovoGrad", "FusedNovoGrad(ps)", "write it with PyTorch"),
        ("normalization.MixedFusedLayerNorm", "MixedFusedLayerNorm(8)", "torch.nn.LayerNorm"),
        ("contrib.xentropy.SoftmaxCrossEntropyLoss", "SoftmaxCrossEntropyLoss.apply(x, y)", "cross_entropy"),
        ("contrib.clip_grad.clip_grad_norm_", "clip_grad_norm_(ps, 1.0)", "torch.nn.utils.clip_grad_norm_"),
        ("mlp.MLP", "MLP([8, 4])", "torch.nn.Linear"),
        ("fused_dense.FusedDenseGeluDense", "FusedDenseGeluDense(8, 16, 4)", "torch.nn.Linear"),
        ("multi_tensor_apply.multi_tensor_applier", "multi_tensor_applier(op, flag, [ps])", "torch._foreach_norm"),
        ("transformer.functional.FusedScaleMaskSoftmax", "FusedScaleMaskSoftmax()", "npu_scaled_masked_softmax"),
    ],
)
def test_what_has_no_equal_is_left_and_named(name: str, call: str, counterpart: str) -> None:
    module, _, last = name.rpartition(".")
    source = f"from apex.{module} import {last}\nout = {call}\n"
    assert f"out = {call}" in converted(source)
    assert any(last in message and counterpart in message for message in messages(source, "JM130"))


def test_arguments_without_an_equal_are_left() -> None:
    for call in ("FusedAdam(ps, bias_correction=False)", "FusedAdam(ps, capturable=True)", "FusedAdam(ps, 1e-3, flag)"):
        source = f"from apex.optimizers import FusedAdam\nout = {call}\n"
        assert f"out = {call}" in converted(source), call
        assert any("was not replaced" in message for message in messages(source, "JM146")), call


# ---- What the findings say to use in their place.


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("shape", [(4, 7), (13, 3), (1, 2)])
def test_xentropy_by_cross_entropy(smoothing: float, shape: tuple[int, int]) -> None:
    text = """
from torch.nn.functional import cross_entropy
out = cross_entropy(x.npu(), y.npu(), label_smoothing=smoothing, ignore_index=0, reduction="none")
"""
    (x,) = leaves(shape)
    y = torch.arange(shape[0]) % shape[1]
    logs = x.double() - torch.logsumexp(x.double(), 1, keepdim=True)
    expected = -(1 - smoothing) * logs.gather(1, y[:, None])[:, 0] - smoothing * logs.mean(1)
    assert_same(run(text, x=x, y=y, smoothing=smoothing)["out"], expected.masked_fill(y == 0, 0), [x])


@pytest.mark.parametrize("shapes", [((5, 7), (3,)), ((1,), (13, 2), (2, 1, 3))])
def test_clip_grad_and_norms_by_pytorchs(shapes: Sequence[tuple[int, ...]]) -> None:
    text = """
import torch
ps = [torch.nn.Parameter(torch.zeros_like(g).npu()) for g in gradients]
for p, g in zip(ps, gradients):
    p.grad = g.npu()
norms = torch._foreach_norm([p.grad for p in ps])
norm = torch.nn.utils.clip_grad_norm_(ps, 1.0)
"""
    gradients = [g.detach() for g in leaves(*shapes)]
    each = [g.double().square().sum().sqrt() for g in gradients]
    whole = math.sqrt(sum(float(one) ** 2 for one in each))
    found = run(text, gradients=gradients)
    for norm, expected in zip(found["norms"], each, strict=True):
        torch.testing.assert_close(norm.cpu().double(), expected, atol=1e-5, rtol=1e-5)
    assert float(found["norm"]) == pytest.approx(whole, rel=1e-5)
    for p, gradient in zip(found["ps"], gradients, strict=True):
        clipped = gradient.double() * min(1.0, 1.0 / (whole + 1e-6))
        torch.testing.assert_close(p.grad.cpu().double(), clipped, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("shape", [(2, 3, 32, 32), (1, 4, 64, 32)])
def test_scaled_masked_softmax_by_torch_npus(shape: tuple[int, ...]) -> None:
    text = """
import torch_npu
out = torch_npu.npu_scaled_masked_softmax(x.npu(), hidden.npu(), 0.5, False)
"""
    (x,) = leaves(shape)
    torch.manual_seed(1)
    hidden = torch.rand(shape[0], 1, *shape[2:]) > 0.6
    hidden[..., 0] = False
    expected = torch.softmax((x.double() * 0.5).masked_fill(hidden, -math.inf), -1)
    assert_same(run(text, x=x, hidden=hidden)["out"], expected, [x], tolerance=1e-4)


def test_mlp_by_layers() -> None:
    text = """
import torch
out = x.npu()
for w, b in zip(weights, biases):
    out = torch.relu(torch.nn.functional.linear(out, w.npu(), b.npu()))
"""
    (x,) = leaves((5, 7))
    weights, biases = leaves((11, 7), (3, 11), seed=1), leaves((11,), (3,), seed=2)
    expected = x.double()
    for w, b in zip(weights, biases, strict=True):
        expected = (expected @ w.double().T + b.double()).clamp(min=0)
    assert_same(run(text, x=x, weights=weights, biases=biases)["out"], expected, [x, *weights, *biases], 1e-4)
    found = messages("from apex.mlp import MLP\nm = MLP([7, 11, 3])\n", "JM130")
    assert any("the last one too" in message for message in found)


def test_sync_batch_norm_in_one_process() -> None:
    text = converted("""
        from apex.parallel import SyncBatchNorm
        layer = SyncBatchNorm(3).cuda()
        out = layer(x.cuda())
    """)
    assert "torch.nn.SyncBatchNorm(3)" in text
    (x,) = leaves((4, 3, 5, 7))
    of_channels = x.double().transpose(0, 1).flatten(1)
    centred = of_channels - of_channels.mean(1, keepdim=True)
    scaled = centred / (centred.square().mean(1, keepdim=True) + 1e-5).sqrt()
    expected = scaled.view(3, 4, 5, 7).transpose(0, 1)
    assert_same(run(text, x=x)["out"], expected, [x])
