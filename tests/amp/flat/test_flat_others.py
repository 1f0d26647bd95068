"""RMSpropTF, Lamb, AdamP and BertAdam follow their published formulas, by our own kernels and in blocks."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from jumar.amp import optimizers as flat
from jumar.amp.flat.layout import LARGE

Tensor = torch.Tensor
Group = dict[str, Any]
SHAPES = ((3, 4), (5,), (), (0,), (2, 3, 2, 2), (6, 5), (LARGE // 64, 80), (LARGE + 7,), (64,))
NUM_STEPS = 8


@pytest.fixture(params=["native", "blocks"])
def way(request, monkeypatch):
    """Every test runs by both ways; a first large step compiles the kernels, so that small runs find them."""
    monkeypatch.setenv("JUMAR_FLAT_NATIVE", "1" if request.param == "native" else "0")
    big = torch.zeros(1 << 18, requires_grad=True)
    big.grad = torch.zeros_like(big)
    flat.RMSpropTF([big]).step()
    return request.param


def start() -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(shape, generator=generator) for shape in SHAPES]


def gradients() -> list[list[Tensor]]:
    """Those of the fifth and sixth parameter, and of the seventh as a whole, are at right angles to them (AdamP)."""
    generator = torch.Generator().manual_seed(1)
    steps = []
    for _ in range(NUM_STEPS):
        drawn = [torch.randn(shape, generator=generator) for shape in SHAPES]
        step = [value * 0.2 + 0.3 * value.sign() for value in drawn]
        for position, rows in ((4, 2), (5, 6), (6, 1)):
            weight, gradient = start()[position].reshape(rows, -1), step[position].reshape(rows, -1)
            along = (gradient * weight).sum(1, keepdim=True) / weight.pow(2).sum(1, keepdim=True)
            step[position] = (gradient - along * weight).view(SHAPES[position])
        steps.append(step)
    return steps


def check(name: str, one: Callable[[Tensor, Tensor, dict[str, Any], Group, int], Tensor], **options: Any) -> None:
    """Compare with `one`, in float64, a parameter at a time; two groups of which one has a rate of its own."""
    own = [value.requires_grad_() for value in start()]
    groups = [{"params": own[:3]}, {"params": own[3:], "lr": 0.005}]
    optimizer = getattr(flat, name)(groups, **{"lr": 0.02, **options})
    expected, states = [value.double() for value in start()], [dict[str, Any]() for _ in SHAPES]
    for step, values in enumerate(gradients()):
        for parameter, value in zip(own, values, strict=True):
            parameter.grad = value.clone()
        optimizer.step()
        for position, value in enumerate(values):
            group = optimizer.param_groups[position >= 3]
            members = values[:3] if position < 3 else values[3:]
            norm = math.sqrt(sum(one_.double().pow(2).sum().item() for one_ in members))
            expected[position] = one(
                expected[position], value.double(), states[position], {**group, "norm": norm}, step
            )
    for parameter, value in zip(own, expected, strict=True):
        torch.testing.assert_close(parameter.detach(), value.float(), rtol=1e-4, atol=2e-5)


def moments(gradient: Tensor, state: dict[str, Any], betas: tuple[float, float]) -> tuple[Tensor, Tensor]:
    state["m"] = betas[0] * state.get("m", 0) + (1 - betas[0]) * gradient
    state["v"] = betas[1] * state.get("v", 0) + (1 - betas[1]) * gradient**2
    return state["m"], state["v"]


@pytest.mark.parametrize("is_adam", [False, True])
@pytest.mark.parametrize("decay", [0, 0.1])
def test_lamb(way, decay, is_adam):
    def one(weight, gradient, state, group, step):
        m, v = moments(gradient, state, group["betas"])
        move = m / (v.sqrt() + group["eps"]) + group["weight_decay"] * weight
        weight_norm, step_norm = min(weight.norm().item(), 10.0), move.norm().item()
        ratio = weight_norm / step_norm if weight_norm and step_norm and not is_adam else 1.0
        return weight - group["lr"] * ratio * move

    check("Lamb", one, weight_decay=decay, adam=is_adam)


def test_lamb_divides_by_the_common_norm_of_all_gradients(way):
    norms = [math.sqrt(sum(value.double().pow(2).sum().item() for value in step)) for step in gradients()]

    def one(weight, gradient, state, group, step):
        m, v = moments(gradient / max(norms[step], 1.0), state, group["betas"])
        move = m / (v.sqrt() + group["eps"])
        weight_norm, step_norm = min(weight.norm().item(), 10.0), move.norm().item()
        return weight - group["lr"] * (weight_norm / step_norm if weight_norm and step_norm else 1.0) * move

    check("Lamb", one, use_global_grad_norm=True)


@pytest.mark.parametrize("nesterov", [False, True])
@pytest.mark.parametrize("decay", [0, 0.1])
def test_adamp(way, decay, nesterov):
    factors = set()

    def one(weight, gradient, state, group, step):
        (beta1, beta2), eps = group["betas"], group["eps"]
        m, v = moments(gradient, state, group["betas"])
        m = beta1 * m + (1 - beta1) * gradient if nesterov else m
        move, factor = m / (v.sqrt() / math.sqrt(1 - beta2 ** (step + 1)) + eps), 1.0
        for rows in (weight.shape[0], 1) if weight.dim() > 1 else ():
            w, g, s = (tensor.reshape(rows, -1) for tensor in (weight, gradient, move))
            cosine = (w * g).sum(1).abs() / (w.norm(dim=1) + eps) / (g.norm(dim=1) + eps)
            if cosine.max() < group["delta"] / math.sqrt(w.shape[1]):
                unit = w / (w.norm(dim=1, keepdim=True) + eps)
                move, factor = (s - unit * (unit * s).sum(1, keepdim=True)).reshape(weight.shape), group["wd_ratio"]
                factors.add(rows)
                break
        weight = weight * (1 - group["lr"] * decay * factor)
        return weight - group["lr"] / (1 - beta1 ** (step + 1)) * move

    check("AdamP", one, weight_decay=decay, nesterov=nesterov, wd_ratio=0.25)
    assert factors >= {1, 2, 6}, "weights were scale-invariant by channel and as a layer"


@pytest.mark.parametrize(
    "options",
    [
        {"momentum": momentum, "centered": centered, "weight_decay": decay, **more}
        for momentum in (0, 0.9)
        for centered in (False, True)
        for decay, more in ((0, {}), (0.05, {}), (0.05, {"decoupled_decay": True}), (0, {"lr_in_momentum": False}))
    ],
)
def test_rmsprop_tf(way, options):
    def one(weight, gradient, state, group, step):
        decay, alpha, momentum = group["weight_decay"], group["alpha"], group["momentum"]
        if group["decoupled_decay"]:
            weight = weight * (1 - decay)
        else:
            gradient = gradient + decay * weight
        state["ms"] = alpha * state.get("ms", 1.0) + (1 - alpha) * gradient**2
        state["mg"] = alpha * state.get("mg", 0.0) + (1 - alpha) * gradient
        scaled = gradient / (state["ms"] - (state["mg"] ** 2 if group["centered"] else 0) + group["eps"]).sqrt()
        if not momentum:
            return weight - group["lr"] * scaled
        inside = group["lr_in_momentum"]
        state["mom"] = momentum * state.get("mom", 0.0) + (group["lr"] if inside else 1) * scaled
        return weight - (1 if inside else group["lr"]) * state["mom"]

    check("RMSpropTF", one, **options)


def rate(schedule: str, done: float, warmup: float) -> float:
    if done < warmup:
        return done / warmup
    return {
        "warmup_linear": max((done - 1) / (warmup - 1), 0.0),
        "warmup_constant": 1.0,
        "warmup_poly": math.sqrt(1 - done),
        "warmup_cosine": 0.5 * (1 + math.cos(math.pi * done)),
    }[schedule]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"weight_decay": 0},
        {"max_grad_norm": -1},
        {"max_grad_norm": 0.3},
        *(
            {"t_total": 12, "warmup": 0.2, "schedule": schedule}
            for schedule in ("warmup_linear", "warmup_constant", "warmup_poly", "warmup_cosine")
        ),
    ],
)
def test_bert_adam(way, options):
    def one(weight, gradient, state, group, step):
        limit = group["max_grad_norm"]
        scale = min(1.0, limit / (group["norm"] + 1e-6)) if limit > 0 else 1.0
        factor = rate(group["schedule"], step / group["t_total"], group["warmup"]) if group["t_total"] != -1 else 1.0
        m, v = moments(gradient * scale, state, (group["b1"], group["b2"]))
        return weight - group["lr"] * factor * (m / (v.sqrt() + group["e"]) + group["weight_decay"] * weight)

    check("BertAdam", one, **options)


@pytest.mark.parametrize("threads", [1, 2])
def test_the_number_of_threads_changes_no_more_than_the_rounding(threads, monkeypatch):
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        monkeypatch.setenv("JUMAR_FLAT_NATIVE", "1")
        found = {}
        for name in ("Lamb", "AdamP"):
            parameters = [torch.randn(700, 600, generator=torch.Generator().manual_seed(0)).requires_grad_()]
            optimizer = getattr(flat, name)(parameters, weight_decay=0.1)
            for step in range(3):
                parameters[0].grad = torch.randn(700, 600, generator=torch.Generator().manual_seed(step))
                optimizer.step()
            found[name] = parameters[0].detach()
        monkeypatch.setenv("JUMAR_FLAT_NATIVE", "0")
        for name, expected in found.items():
            parameters = [torch.randn(700, 600, generator=torch.Generator().manual_seed(0)).requires_grad_()]
            optimizer = getattr(flat, name)(parameters, weight_decay=0.1)
            for step in range(3):
                parameters[0].grad = torch.randn(700, 600, generator=torch.Generator().manual_seed(step))
                optimizer.step()
            torch.testing.assert_close(parameters[0].detach(), expected, rtol=1e-4, atol=1e-5)
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("RMSpropTF", {"momentum": -0.5}, "Invalid momentum value: -0.5"),
        ("Lamb", {"betas": (-0.1, 0.9)}, "Invalid beta parameter at index 0: -0.1"),
        ("AdamP", {"eps": -1.0}, "Invalid epsilon value: -1.0"),
        ("BertAdam", {"lr": 0.1, "warmup": 1.0}, "Invalid warmup: 1.0"),
        ("BertAdam", {"lr": 0.1, "schedule": "linear"}, "Invalid schedule parameter: linear"),
        ("BertAdam", {"lr": -0.1}, "Invalid learning rate: -0.1"),
    ],
)
def test_options_out_of_range_are_refused(name, options, words):
    with pytest.raises(ValueError, match=words):
        getattr(flat, name)([torch.ones(2, requires_grad=True)], **options)
