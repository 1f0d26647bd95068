"""Optimizers under `jumar.amp`: accumulation, clipping, combined gradients, groups, schedulers."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from amp_models import batches, loss_of, network, sgd
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from jumar import amp
from jumar.amp.flat.combining import combine as flatten
from jumar.amp.optimizers import SGD


def prepared(level: str = "O2", make: Any = sgd, **options: Any) -> tuple[Any, Any]:
    model = network(("linear", "layernorm", "gelu"))
    return amp.initialize(
        model, make(model), opt_level=level, verbosity=0, **({"half_type": torch.float16, "loss_scale": 64.0} | options)
    )


def gradients(model: Any, optimizer: Any, numbers: list[int], *, delay: bool = False, clear: bool = True) -> Any:
    if clear:
        optimizer.zero_grad()
    for place, number in enumerate(numbers):
        late = delay and place < len(numbers) - 1
        with amp.scale_loss(loss_of(model, batches(4)[number]), optimizer, delay_unscale=late) as scaled:
            scaled.backward()
    return [parameter.grad.clone() for parameter in amp.master_params(optimizer)]


@given(
    level=st.sampled_from(["O1", "O2", "O3"]),
    combine=st.booleans(),
    delay=st.booleans(),
    numbers=st.lists(st.integers(0, 3), min_size=1, max_size=4),
    scale=st.sampled_from([64.0, 1000.0, "dynamic"]),
)
def test_accumulated_gradients_are_the_sum(
    level: str, combine: bool, delay: bool, numbers: list[int], scale: Any
) -> None:
    model, optimizer = prepared(level, combine_grad=combine, loss_scale=scale)
    parts = [gradients(model, optimizer, [number]) for number in numbers]
    found = gradients(model, optimizer, numbers, delay=delay)
    for place, gradient in enumerate(found):
        expected = torch.stack([part[place].double() for part in parts]).sum(0)
        rough = level != "O1" and (delay or level == "O3")  # sums in float16
        torch.testing.assert_close(
            gradient.double(), expected, rtol=4e-3 if rough else 1e-5, atol=1e-3 if rough else 1e-6
        )


@pytest.mark.parametrize("combine", [False, True])
def test_a_parameter_that_backward_does_not_reach_stays(combine: bool) -> None:
    model = nn.ModuleDict({"used": nn.Linear(4, 4), "unused": nn.Linear(4, 4)})
    before = model["unused"].weight.detach().clone()
    model, optimizer = amp.initialize(
        model, torch.optim.SGD(model.parameters(), lr=0.1, weight_decay=0.5), opt_level="O1", combine_grad=combine,
        verbosity=0,
    )  # fmt: skip
    for _ in range(3):
        optimizer.zero_grad()
        with amp.scale_loss(model["used"](torch.ones(2, 4)).float().sum(), optimizer) as scaled:
            scaled.backward()
        assert model["unused"].weight.grad is None
        optimizer.step()
    assert torch.equal(model["unused"].weight, before)


@pytest.mark.parametrize("level", ["O0", "O1", "O2", "O3"])
@pytest.mark.parametrize(
    "make", [sgd, lambda m: torch.optim.AdamW(m.parameters(), eps=1e-3), lambda m: torch.optim.Adagrad(m.parameters())]
)
def test_combined_gradients_are_flat_and_train_equally(level: str, make: Any) -> None:
    results = []
    for combine in (False, True):
        model, optimizer = prepared(level, make, combine_grad=combine, check_combined_tensors=combine)
        for number in range(4):
            gradients(model, optimizer, [number])
            amp.clip_grad_norm_(optimizer, 0.5)
            flat = amp.combined_gradients(optimizer)
            optimizer.step()
        results.append([parameter.detach().clone() for parameter in amp.master_params(optimizer)])
    assert len(flat) == 1
    for one, other in zip(*results, strict=True):
        rough = one.dtype is torch.float16
        torch.testing.assert_close(one, other, rtol=1e-2 if rough else 1e-5, atol=1e-2 if rough else 1e-6)


def test_combined_gradients_show_the_same_memory() -> None:
    model, optimizer = prepared("O1", combine_grad=True)
    gradients(model, optimizer, [0])
    (flat,) = amp.combined_gradients(optimizer)
    flat.fill_(3.0)
    assert {float(parameter.grad.min()) for parameter in model.parameters()} == {3.0}
    model.zero_grad()  # dropped: the next backward pass makes new ones
    assert gradients(model, optimizer, [1], clear=False)[0].abs().max() < 3.0


def test_a_gradient_that_was_replaced_is_said() -> None:
    model, optimizer = prepared("O1", combine_grad=True, check_combined_tensors=True)
    gradients(model, optimizer, [0])
    model[0].weight.grad = model[0].weight.grad * 2
    with pytest.raises(RuntimeError, match=r"the gradient of 0\.weight \(1 in all\) was replaced between scale_loss"):
        optimizer.step()
    model[0].weight.data = model[0].weight.data.clone()
    with pytest.raises(RuntimeError, match=r"the weight of 0\.weight"):
        optimizer.step()
    gradients(model, optimizer, [0])
    optimizer.step()


@pytest.mark.parametrize("combine", [False, True])
@pytest.mark.parametrize("level", ["O1", "O2"])
def test_clipping_is_torchs(level: str, combine: bool) -> None:
    norms, clipped = [], []
    for own in (True, False):
        model, optimizer = prepared(level, combine_grad=combine)
        gradients(model, optimizer, [0])
        if own:
            norms.append(amp.clip_grad_norm_(optimizer, 0.1))
        else:
            norms.append(torch.nn.utils.clip_grad_norm_(amp.master_params(optimizer), 0.1))
        clipped.append([parameter.grad.clone() for parameter in amp.master_params(optimizer)])
    torch.testing.assert_close(norms[0], norms[1])
    for one, other in zip(*clipped, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("combine", [False, True])
@pytest.mark.parametrize("level", ["O1", "O2"])
@pytest.mark.parametrize("early", [False, True])
@pytest.mark.filterwarnings("error")
def test_a_scheduler_of_learning_rates_works_before_and_after(level: str, combine: bool, early: bool) -> None:
    model = network()
    optimizer = sgd(model)
    schedulers = [torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)] if early else []
    model, optimizer = amp.initialize(model, optimizer, opt_level=level, combine_grad=combine, verbosity=0)
    schedulers += [] if early else [torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)]
    before = model[0].weight.detach().clone()
    for number in range(2):
        gradients(model, optimizer, [number])
        optimizer.step()
        schedulers[0].step()
    assert optimizer.param_groups[0]["lr"] == 0.025
    assert not torch.equal(model[0].weight, before)


@pytest.mark.parametrize("combine", [False, True])
def test_a_group_added_later_trains(combine: bool) -> None:
    model, more = network(), nn.Linear(4, 4)
    (model, more), optimizer = amp.initialize(
        [model, more], sgd(model), opt_level="O2", combine_grad=combine, verbosity=0
    )
    gradients(model, optimizer, [0])
    optimizer.step()
    optimizer.add_param_group({"params": list(more.parameters()), "lr": 0.5})
    assert {parameter.dtype for parameter in amp.master_params(optimizer)} == {torch.float32}
    before = more.weight.detach().clone()
    optimizer.zero_grad()
    with amp.scale_loss(more(model(batches(1)[0][0])).sum(), optimizer) as scaled:
        scaled.backward()
    optimizer.step()
    assert not torch.equal(more.weight, before)


@pytest.mark.parametrize("level", ["O1", "O2"])
def test_an_optimizer_over_flat_buffers_trains_as_torchs(level: str) -> None:
    results = []
    for make in (sgd, lambda model: SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-3)):
        for combine in (False, True):
            model, optimizer = prepared(level, make, combine_grad=combine)
            for number in range(3):
                gradients(model, optimizer, [number])
                optimizer.step()
            results.append([parameter.detach().clone() for parameter in amp.master_params(optimizer)])
    for other in results[1:]:
        for one, two in zip(results[0], other, strict=True):
            torch.testing.assert_close(one, two, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("size", [5, 32, 1000])
def test_flat_sgd_is_right_where_torchs_fused_kernel_is_not(dtype: torch.dtype, size: int) -> None:
    results = []
    for flat in (False, True):
        generator = torch.Generator().manual_seed(0)
        parameter = torch.randn(size, generator=generator).to(dtype).requires_grad_()
        optimizer = torch.optim.SGD([parameter], lr=0.1, momentum=0.9)
        if flat:
            assert flatten(optimizer).optimizer is not None
        for _ in range(3):
            parameter.grad = torch.randn(size, generator=generator).to(dtype)
            optimizer.step()
        results.append(parameter.detach().float())
    torch.testing.assert_close(*results, rtol=1e-2 if dtype is torch.bfloat16 else 2e-3, atol=1e-2)
