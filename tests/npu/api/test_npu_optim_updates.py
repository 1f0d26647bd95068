"""The fused optimizers of the emulated NPU move parameters as their plain counterparts do."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from jumar.device import DevicePlan, activate
from jumar.npu.api import optim

activate(DevicePlan(real="never", numerics="exact", unsupported="fallback"))

NUM_STEPS = 20
SHAPES = ((3, 4), (5,), (), (2, 3, 2, 2), (6, 5))
Tensor = torch.Tensor
Group = dict[str, Any]


def start(dtype: torch.dtype = torch.float32) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(shape, generator=generator).to(dtype) for shape in SHAPES]


def gradients(dtype: torch.dtype = torch.float32) -> list[list[Tensor]]:
    """Gradients of each step. The last two parameters' are nearly at right angles to them (AdamP looks at that)."""
    generator = torch.Generator().manual_seed(1)
    steps = [[torch.randn(shape, generator=generator) for shape in SHAPES] for _ in range(NUM_STEPS)]
    for step in steps:
        for position in (3, 4):
            weight, gradient = start()[position].flatten(1), step[position].flatten(1)
            along = (gradient * weight).sum(1, keepdim=True) / weight.pow(2).sum(1, keepdim=True)
            step[position] = (gradient - along * weight).view(SHAPES[position])
    return [[gradient.to(dtype) for gradient in step] for step in steps]


def groups(parameters: list[Tensor]) -> list[Group]:
    """Two groups, the second with a learning rate of its own."""
    return [{"params": parameters[:3]}, {"params": parameters[3:], "lr": 0.03}]


def moved(make: Callable[[list[Group]], torch.optim.Optimizer], device: str, dtype: torch.dtype) -> list[Tensor]:
    parameters = [tensor.to(device).requires_grad_() for tensor in start(dtype)]
    optimizer = make(groups(parameters))
    for step in gradients(dtype):
        optimizer.zero_grad()
        sum(
            (parameter * gradient.to(device)).sum() for parameter, gradient in zip(parameters, step, strict=True)
        ).backward()
        optimizer.step()
    return [parameter.detach().cpu() for parameter in parameters]


def options(**values: tuple[Any, ...]) -> list[dict[str, Any]]:
    return [dict(zip(values, chosen, strict=True)) for chosen in itertools.product(*values.values())]


DECAY = (0, 0.1)
WITH_COUNTERPART = [
    *((optim.NpuFusedAdam, torch.optim.Adam, o) for o in options(weight_decay=DECAY, amsgrad=(False, True))),
    (optim.NpuFusedAdam, torch.optim.Adam, {"betas": (0.5, 0.7), "eps": 1e-3}),
    *((optim.NpuFusedAdamW, torch.optim.AdamW, o) for o in options(weight_decay=DECAY, amsgrad=(False, True))),
    (optim.NpuFusedAdamW, torch.optim.AdamW, {}),
    *(
        (optim.NpuFusedSGD, torch.optim.SGD, {"lr": 0.05, **o})
        for o in options(momentum=(0, 0.9), dampening=(0, 0.3), weight_decay=DECAY)
    ),
    (optim.NpuFusedSGD, torch.optim.SGD, {"lr": 0.05, "momentum": 0.8, "nesterov": True, "weight_decay": 0.1}),
    *((optim.NpuFusedAdadelta, torch.optim.Adadelta, o) for o in options(weight_decay=DECAY, rho=(0.9, 0.5))),
    *(
        (optim.NpuFusedRMSprop, torch.optim.RMSprop, o)
        for o in options(weight_decay=DECAY, momentum=(0, 0.9), centered=(False, True))
    ),
]


def name(value: Any) -> str | None:
    if isinstance(value, dict):
        return ",".join(f"{key}={item}" for key, item in value.items()) or "defaults"
    return None


@pytest.mark.parametrize(("fused", "plain", "given"), WITH_COUNTERPART, ids=name)
def test_parameters_equal_those_of_the_plain_optimizer_after_20_steps(fused, plain, given):
    expected = moved(lambda groups: plain(groups, **given), "cpu", torch.float32)
    actual = moved(lambda groups: fused(groups, **given), "npu", torch.float32)
    torch.testing.assert_close(actual, expected, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("fused", "plain"),
    [
        (optim.NpuFusedAdam, torch.optim.Adam),
        (optim.NpuFusedAdamW, torch.optim.AdamW),
        (optim.NpuFusedAdadelta, torch.optim.Adadelta),
        (optim.NpuFusedRMSprop, torch.optim.RMSprop),
    ],
)
def test_half_precision_parameters_are_updated_in_half_precision(fused, plain):
    given = {"eps": 1e-3}
    expected = moved(lambda groups: plain(groups, **given, foreach=False), "cpu", torch.float16)
    actual = moved(lambda groups: fused(groups, **given), "npu", torch.float16)
    assert [torch.float16] * len(SHAPES) == [tensor.dtype for tensor in actual]
    torch.testing.assert_close(actual, expected, rtol=2e-2, atol=2e-2)


class Reference:
    """One parameter at a time, in float64, from the published formula in `one`."""

    def __init__(self, one: Callable[..., None], groups: list[Group], **defaults: Any) -> None:
        self.one, self.groups = one, [{**defaults, **group} for group in groups]
        self.states = [[{} for _ in group["params"]] for group in self.groups]

    def run(self) -> list[Tensor]:
        for step, values in enumerate(gradients()):
            left = iter(values)
            for group, states in zip(self.groups, self.states, strict=True):
                own = [next(left).double() for _ in group["params"]]
                self.one(group["params"], own, states, group, step)
        return [parameter.float() for group in self.groups for parameter in group["params"]]


def check(fused: type[torch.optim.Optimizer], one: Callable[..., None], **given: Any) -> None:
    expected = Reference(one, groups([tensor.double() for tensor in start()]), **given).run()
    actual = moved(lambda groups: fused(groups, **given), "npu", torch.float32)
    torch.testing.assert_close(actual, expected, rtol=2e-4, atol=2e-5)


def each(update: Callable[[Tensor, Tensor, dict[str, Any], Group, int], Tensor]) -> Callable[..., None]:
    """Let `update` give a parameter its new value."""

    def one(parameters: list[Tensor], own: list[Tensor], states: list[dict], group: Group, step: int) -> None:
        for position, gradient in enumerate(own):
            parameters[position] = update(parameters[position], gradient, states[position], group, step)

    return one


def moments(gradient: Tensor, state: dict[str, Any], beta1: float, beta2: float) -> tuple[Tensor, Tensor]:
    state["m"] = beta1 * state.get("m", 0) + (1 - beta1) * gradient
    state["v"] = beta2 * state.get("v", 0) + (1 - beta2) * gradient**2
    return state["m"], state["v"]


def lamb(weight: Tensor, gradient: Tensor, state: dict[str, Any], group: Group, _: int) -> Tensor:
    m, v = moments(gradient, state, *group.get("betas", (0.9, 0.999)))
    step = m / (v.sqrt() + group.get("eps", 1e-6)) + group.get("weight_decay", 0) * weight
    weight_norm, step_norm = min(weight.norm().item(), 10.0), step.norm().item()
    ratio = weight_norm / step_norm if weight_norm and step_norm and not group.get("adam") else 1.0
    return weight - group["lr"] * ratio * step


@pytest.mark.parametrize("given", options(weight_decay=(0, 0.1), adam=(False, True)), ids=name)
def test_lamb_follows_its_first_version(given):
    # `adam` is an option of the optimizer, not of its groups: the reference reads it from the group.
    check(optim.NpuFusedLamb, each(lamb), lr=0.02, **given)


def test_lamb_divides_by_the_global_norm_that_apex_gives():
    class Prepared(optim.NpuFusedLamb):
        def get_optimizer_combined_grads(self):
            return self.get_combined_grads()

        def get_optimizer_combined_grad_masks(self):
            return [None if gradient is None else torch.ones_like(gradient) for gradient in self.get_combined_grads()]

    def one(parameters, own, states, group, step):
        norm = math.sqrt(sum(value.double().pow(2).sum().item() for value in gradients()[step]))
        assert norm > 1
        each(lamb)(parameters, [gradient / norm for gradient in own], states, group, step)

    expected = Reference(one, groups([tensor.double() for tensor in start()]), lr=0.02).run()
    actual = moved(lambda groups: Prepared(groups, lr=0.02, use_global_grad_norm=True), "npu", torch.float32)
    torch.testing.assert_close(actual, expected, rtol=2e-4, atol=2e-5)


def test_lamb_needs_apex_for_the_global_norm():
    with pytest.raises(AttributeError, match="get_optimizer_combined_grads"):
        moved(lambda groups: optim.NpuFusedLamb(groups, use_global_grad_norm=True), "npu", torch.float32)


def adamp(weight: Tensor, gradient: Tensor, state: dict[str, Any], group: Group, step: int) -> Tensor:
    beta1, beta2, eps = 0.9, 0.999, 1e-8
    m, v = moments(gradient, state, beta1, beta2)
    if group.get("nesterov"):
        m = beta1 * m + (1 - beta1) * gradient
    perturb = m / (v.sqrt() / math.sqrt(1 - beta2 ** (step + 1)) + eps)
    factor = 1.0
    if weight.dim() > 1:
        for view in (lambda t: t.reshape(t.shape[0], -1), lambda t: t.reshape(1, -1)):
            cosines = torch.nn.functional.cosine_similarity(view(weight), view(gradient), dim=1).abs()
            if cosines.max() < group["delta"] / math.sqrt(view(weight).shape[1]):
                unit = torch.nn.functional.normalize(view(weight), dim=1)
                perturb = (view(perturb) - unit * (unit * view(perturb)).sum(1, keepdim=True)).reshape(weight.shape)
                factor = group["wd_ratio"]
                break
    state.setdefault("factors", []).append(factor)
    weight = weight * (1 - group["lr"] * group.get("weight_decay", 0) * factor)
    return weight - group["lr"] / (1 - beta1 ** (step + 1)) * perturb


@pytest.mark.parametrize("given", options(weight_decay=(0, 0.1), nesterov=(False, True)), ids=name)
def test_adamp_projects_as_published(given):
    factors = []

    def one(parameters, own, states, group, step):
        each(adamp)(parameters, own, states, group, step)
        factors.extend(state["factors"][-1] for state in states)

    check(optim.NpuFusedAdamP, one, lr=0.01, delta=0.1, wd_ratio=0.25, **given)
    assert {1.0, 0.25} == set(factors)


def rmsprop_tf(weight: Tensor, gradient: Tensor, state: dict[str, Any], group: Group, _: int) -> Tensor:
    decay, alpha, momentum = group.get("weight_decay", 0), 0.9, group.get("momentum", 0)
    if group.get("decoupled_decay"):
        weight = weight * (1 - decay)
    else:
        gradient = gradient + decay * weight
    state["ms"] = alpha * state.get("ms", 1.0) + (1 - alpha) * gradient**2
    state["mg"] = alpha * state.get("mg", 0.0) + (1 - alpha) * gradient
    scaled = gradient / (state["ms"] - (state["mg"] ** 2 if group.get("centered") else 0) + 1e-10).sqrt()
    if not momentum:
        return weight - group["lr"] * scaled
    inside = group.get("lr_in_momentum", True)
    state["mom"] = momentum * state.get("mom", 0.0) + (group["lr"] if inside else 1) * scaled
    return weight - (1 if inside else group["lr"]) * state["mom"]


@pytest.mark.parametrize(
    "given",
    [
        *options(weight_decay=(0, 0.05), momentum=(0, 0.9), centered=(False, True)),
        {"weight_decay": 0.05, "decoupled_decay": True},
        {"momentum": 0.9, "lr_in_momentum": False},
    ],
    ids=name,
)
def test_rmsprop_tf_follows_tensorflow(given):
    check(optim.NpuFusedRMSpropTF, each(rmsprop_tf), lr=0.01, **given)


def rate(schedule: str, done: float, warmup: float) -> float:
    if done < warmup:
        return done / warmup
    return {
        "warmup_linear": max((done - 1) / (warmup - 1), 0.0),
        "warmup_constant": 1.0,
        "warmup_poly": math.sqrt(1 - done),
    }[schedule]


def bert_adam(parameters: list[Tensor], own: list[Tensor], states: list[dict], group: Group, step: int) -> None:
    """Adam of the BERT paper's code; gradients are clipped over the group, as the fused optimizer does."""
    norm = math.sqrt(sum(gradient.pow(2).sum().item() for gradient in own))
    limit = group.get("max_grad_norm", 1.0)
    scale = min(1.0, limit / (norm + 1e-6)) if limit > 0 else 1.0
    factor = 1.0
    if group.get("t_total", -1) != -1:
        factor = rate(group["schedule"], step / group["t_total"], group.get("warmup", -1))
    for position, gradient in enumerate(own):
        m, v = moments(gradient * scale, states[position], 0.9, 0.999)
        update = m / (v.sqrt() + 1e-6) + group.get("weight_decay", 0.01) * parameters[position]
        parameters[position] = parameters[position] - group["lr"] * factor * update


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"weight_decay": 0},
        {"max_grad_norm": -1},
        {"max_grad_norm": 0.3},
        *(
            {"t_total": 25, "warmup": 0.2, "schedule": schedule}
            for schedule in ("warmup_linear", "warmup_constant", "warmup_poly")
        ),
        {"t_total": 25, "schedule": "warmup_linear"},
    ],
    ids=name,
)
def test_bert_adam_follows_berts_code(given):
    check(optim.NpuFusedBertAdam, bert_adam, lr=0.01, **given)


def test_bert_adams_cosine_schedule_ends_with_its_warmup_as_on_the_npu():
    with pytest.raises(TypeError, match="cos"):
        moved(
            lambda groups: optim.NpuFusedBertAdam(groups, lr=0.1, t_total=40, warmup=0.1, schedule="warmup_cosine"),
            "npu",
            torch.float32,
        )


@pytest.mark.parametrize(
    ("fused", "given", "words"),
    [
        (optim.NpuFusedAdam, {"lr": -1.0}, "Invalid learning rate: -1.0"),
        (optim.NpuFusedAdam, {"betas": (0.9, 1.0)}, "Invalid beta parameter at index 1: 1.0"),
        (optim.NpuFusedAdamW, {"eps": -1.0}, "Invalid epsilon value: -1.0"),
        (optim.NpuFusedAdamW, {"weight_decay": -1.0}, "Invalid weight_decay value: -1.0"),
        (optim.NpuFusedSGD, {"lr": 0.1, "momentum": -1.0}, "Invalid momentum value: -1.0"),
        (optim.NpuFusedSGD, {"lr": 0.1, "nesterov": True}, "Nesterov momentum requires a momentum and zero dampening"),
        (optim.NpuFusedSGD, {}, "didn't specify a value of required optimization parameter lr"),
        (optim.NpuFusedAdadelta, {"rho": 1.5}, "Invalid rho value: 1.5"),
        (optim.NpuFusedRMSprop, {"alpha": -0.5}, "Invalid alpha value: -0.5"),
        (optim.NpuFusedRMSpropTF, {"momentum": -0.5}, "Invalid momentum value: -0.5"),
        (optim.NpuFusedLamb, {"betas": (-0.1, 0.9)}, "Invalid beta parameter at index 0: -0.1"),
        (optim.NpuFusedBertAdam, {"lr": 0.1, "warmup": 1.0}, "Invalid warmup: 1.0"),
        (optim.NpuFusedBertAdam, {"lr": 0.1, "schedule": "linear"}, "Invalid schedule parameter: linear"),
        (optim.NpuFusedBertAdam, {"lr": 0.1, "b2": 1.0}, "Invalid b2 parameter: 1.0"),
    ],
)
def test_options_out_of_range_are_refused(fused, given, words):
    with pytest.raises(ValueError, match=words):
        fused([torch.ones(2, device="npu", requires_grad=True)], **given)
