"""Optimizers over flat buffers move parameters as torch.optim does, over generated models and settings."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from jumar.amp import optimizers as flat
from jumar.amp.flat.layout import LARGE

Tensor = torch.Tensor

SHAPES = st.sampled_from([(), (0,), (1,), (7,), (3, 5), (4, 3, 2, 2), (2, 0, 3), (LARGE + 3,), (200, 170)])
DTYPES = st.sampled_from([torch.float32, torch.float32, torch.float64, torch.bfloat16, torch.float16])
TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 2e-2, torch.float16: 5e-3}
"""Relative to the greatest of 1 and the value: bfloat16 keeps 8 bits, and PyTorch's fused kernels round less often."""


def switch(*names: str) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({name: st.booleans() for name in names})


DECAY = st.sampled_from([0, 0.05])
OPTIONS: dict[str, st.SearchStrategy[dict[str, Any]]] = {
    "SGD": st.one_of(
        st.fixed_dictionaries(
            {"momentum": st.sampled_from([0, 0.9]), "dampening": st.sampled_from([0, 0.3]), "weight_decay": DECAY,
             "maximize": st.booleans()}
        ),
        st.just({"momentum": 0.8, "nesterov": True, "weight_decay": 0.05}),
    ),
    "Adam": st.fixed_dictionaries({"weight_decay": DECAY, "amsgrad": st.booleans(), "maximize": st.booleans()}),
    "AdamW": st.fixed_dictionaries({"weight_decay": DECAY, "amsgrad": st.booleans(), "maximize": st.booleans()}),
    "Adadelta": st.fixed_dictionaries({"weight_decay": DECAY, "maximize": st.booleans()}),
    "RMSprop": st.fixed_dictionaries(
        {"weight_decay": DECAY, "centered": st.booleans(), "maximize": st.booleans(),
         "momentum": st.sampled_from([0, 0.9])}
    ),
}  # fmt: skip


@st.composite
def models(draw: Any) -> list[list[tuple[tuple[int, ...], torch.dtype]]]:
    """Shapes and dtypes of the parameters of one to three groups."""
    one = st.lists(st.tuples(SHAPES, DTYPES), min_size=1, max_size=5)
    return draw(st.lists(one, min_size=1, max_size=3))


def parameters(model: list[list[tuple[tuple[int, ...], torch.dtype]]]) -> list[list[Tensor]]:
    generator = torch.Generator().manual_seed(0)
    return [
        [torch.randn(shape, generator=generator).to(dtype).requires_grad_() for shape, dtype in group]
        for group in model
    ]


def set_gradients(groups: list[list[Tensor]], step: int, missing: list[int], *, fresh: bool) -> None:
    """Give gradients as autograd does: added to those that are there, else new; none to the missing ones."""
    generator = torch.Generator().manual_seed(100 + step)
    for position, parameter in enumerate(itertools.chain(*groups)):
        # Away from zero, also after weight decay: divided by its own size, a rounding error near zero is any number.
        drawn = torch.randn(parameter.shape, generator=generator) * 0.2
        gradient = (drawn + 0.4 * drawn.sign()).to(parameter.dtype)
        if position in missing:
            if fresh:
                parameter.grad = None
        elif fresh:
            parameter.grad = gradient
        else:
            torch.autograd.backward([parameter], [gradient])


def trained(
    kind: Any, model: Any, rates: list[float], options: dict[str, Any], missing: list[list[int]], fresh: bool
) -> Any:
    groups = parameters(model)
    settings_ = [{"params": group, "lr": rate} for group, rate in zip(groups, rates, strict=False)]
    optimizer = kind(settings_, lr=0.1, **options)
    for step, without in enumerate(missing):
        if not fresh:
            optimizer.zero_grad()
        set_gradients(groups, step, without, fresh=fresh)
        optimizer.step()
    return groups, optimizer


def assert_close(actual: Tensor, expected: Tensor) -> None:
    scale = TOLERANCE[expected.dtype]
    torch.testing.assert_close(actual, expected, rtol=scale, atol=scale, equal_nan=True)


@pytest.mark.parametrize("name", list(OPTIONS))
@settings(max_examples=25)
@given(data=st.data())
def test_parameters_and_states_equal_torch_optims(name: str, data: st.DataObject) -> None:
    model, options = data.draw(models()), data.draw(OPTIONS[name])
    count = sum(map(len, model))
    missing = data.draw(st.lists(st.lists(st.integers(0, count - 1), max_size=2), min_size=1, max_size=4))
    fresh = data.draw(st.booleans())
    rates = [0.1, 0.03, 0.01]
    # In 16 bits PyTorch's loop rounds after every operator and its fused kernels only at the end; ours are the latter.
    is_short = any(dtype.itemsize == 2 for group in model for _, dtype in group)
    way = {"fused": True} if is_short and name in {"Adam", "AdamW"} else {"foreach": False}
    expected, plain = trained(getattr(torch.optim, name), model, rates, {**options, **way}, missing, fresh)
    actual, own = trained(getattr(flat, name), model, rates, options, missing, fresh)
    for expected_group, actual_group in zip(expected, actual, strict=True):
        for one, other in zip(actual_group, expected_group, strict=True):
            assert_close(one, other)
    wanted, found = plain.state_dict()["state"], own.state_dict()["state"]
    assert {key: set(value) for key, value in found.items()} == {key: set(value) for key, value in wanted.items()}
    for key, state in wanted.items():
        for entry, value in state.items():
            if value is not None:
                assert found[key][entry].shape == value.shape
                assert found[key][entry].dtype == value.dtype
                assert_close(found[key][entry], value)


@pytest.mark.parametrize("native", ["0", "1"])
@pytest.mark.parametrize("name", ["Adadelta", "RMSprop"])
def test_blocks_of_operators_and_our_own_kernels_give_the_same(name, native, monkeypatch):
    monkeypatch.setenv("JUMAR_FLAT_NATIVE", native)
    model = [[((700, 600), torch.float32), ((9,), torch.float32)], [((3, 4), torch.float64)]]
    options = {"weight_decay": 0.05}
    expected, _ = trained(getattr(torch.optim, name), model, [0.1, 0.2], options, [[]] * 4, False)
    actual, _ = trained(getattr(flat, name), model, [0.1, 0.2], options, [[]] * 4, False)
    for one, other in zip(itertools.chain(*actual), itertools.chain(*expected), strict=True):
        assert_close(one, other)


def test_a_parameter_without_a_new_gradient_is_left_alone_after_zero_grad():
    used, unused = (torch.ones(3, requires_grad=True) for _ in range(2))
    optimizer = flat.SGD([used, unused], lr=0.1, momentum=0.9, weight_decay=0.1)
    (used.sum() + unused.sum()).backward()
    optimizer.step()
    before = unused.detach().clone()
    optimizer.zero_grad()
    used.sum().backward()
    optimizer.step()
    assert torch.equal(unused, before)
    assert not torch.equal(used, before)


def test_a_gradient_of_zeros_moves_the_parameter_by_its_momentum():
    parameter, plain = (torch.ones(3, requires_grad=True) for _ in range(2))
    pairs = [
        (flat.SGD([parameter], lr=0.1, momentum=0.9), parameter),
        (torch.optim.SGD([plain], lr=0.1, momentum=0.9), plain),
    ]
    for optimizer, one in pairs:
        for factor in (1.0, 0.0):
            optimizer.zero_grad()
            (one * factor).sum().backward()
            optimizer.step()
    assert torch.equal(parameter, plain)


def test_channels_last_weights_keep_their_strides():
    made = [torch.randn(8, 4, 3, 3).to(memory_format=torch.channels_last) for _ in range(2)]
    made[1].copy_(made[0])
    own, plain = (one.requires_grad_() for one in made)
    pairs = [(flat.AdamP([own]), own), (flat.AdamP([plain.detach().contiguous().requires_grad_()]), None)]
    other = pairs[1][0].param_groups[0]["params"][0]
    for optimizer, parameter in ((pairs[0][0], own), (pairs[1][0], other)):
        for step in range(3):
            parameter.grad = torch.randn(parameter.shape, generator=torch.Generator().manual_seed(step))
            optimizer.step()
    assert own.is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(own, other)


def test_a_learning_rate_may_be_a_tensor():
    own, plain = (torch.ones(3, requires_grad=True) for _ in range(2))
    for kind, parameter in ((flat.Adam, own), (torch.optim.Adam, plain)):
        optimizer = kind([parameter], lr=torch.tensor(0.1))
        parameter.sum().backward()
        optimizer.step()
    torch.testing.assert_close(own, plain)


def test_the_momentum_may_come_later():
    own, plain = (torch.ones(3, requires_grad=True) for _ in range(2))
    for kind, parameter in ((flat.SGD, own), (torch.optim.SGD, plain)):
        optimizer = kind([parameter], lr=0.1)
        for step in range(5):
            optimizer.param_groups[0]["momentum"] = 0.9 if step > 1 else 0.0
            optimizer.zero_grad()
            (parameter * step).sum().backward()
            optimizer.step()
    torch.testing.assert_close(own, plain)
