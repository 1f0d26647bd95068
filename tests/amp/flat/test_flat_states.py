"""State dictionaries of optimizers over flat buffers and of torch.optim are exchanged in both directions."""

from __future__ import annotations

import copy
import io
from typing import Any

import pytest
import torch
from torch import nn

from jumar.amp import optimizers as flat
from jumar.amp.flat.layout import LARGE

KINDS = [
    ("SGD", {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01}),
    ("SGD", {"lr": 0.1}),
    ("Adam", {"amsgrad": True}),
    ("AdamW", {}),
    ("Adadelta", {}),
    ("RMSprop", {"momentum": 0.9, "centered": True, "eps": 1e-3}),
]
OWN = [
    ("RMSpropTF", {"momentum": 0.9}),
    ("Lamb", {}),
    ("AdamP", {}),
    ("BertAdam", {"lr": 0.01, "t_total": 20, "warmup": 0.2}),
]


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, LARGE // 4), nn.Tanh(), nn.Linear(LARGE // 4, 2))


def optimizer_of(module: Any, name: str, model: nn.Module, options: dict[str, Any]) -> torch.optim.Optimizer:
    groups = [{"params": list(model[0].parameters()), "weight_decay": 0.0}, {"params": list(model[2:].parameters())}]
    return getattr(module, name)(groups, **options)


def train(model: nn.Module, optimizer: torch.optim.Optimizer, steps: range) -> None:
    for step in steps:
        optimizer.zero_grad()
        model(torch.randn(4, 6, generator=torch.Generator().manual_seed(step))).pow(2).mean().backward()
        optimizer.step()


def saved(optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    file = io.BytesIO()
    torch.save(optimizer.state_dict(), file)
    file.seek(0)
    return torch.load(file, weights_only=True)


def assert_same(one: nn.Module, other: nn.Module) -> None:
    for own, expected in zip(one.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(own, expected, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize(
    "direction", [(torch.optim, flat), (flat, torch.optim), (flat, flat)], ids=["in", "out", "own"]
)
@pytest.mark.parametrize(("name", "options"), KINDS)
def test_training_goes_on_from_a_checkpoint_of_the_other_kind(name, options, direction):
    model, reference = network(), network()
    first = optimizer_of(direction[0], name, model, options)
    train(model, first, range(4))
    second = optimizer_of(direction[1], name, model, options)
    second.load_state_dict(saved(first))
    train(model, second, range(4, 8))
    train(reference, optimizer_of(torch.optim, name, reference, options), range(8))
    assert_same(model, reference)


@pytest.mark.parametrize(("name", "options"), KINDS)
def test_state_dictionaries_have_the_same_entries_shapes_and_dtypes(name, options):
    found = []
    for module in (torch.optim, flat):
        model = network()
        optimizer = optimizer_of(module, name, model, options)
        train(model, optimizer, range(2))
        found.append(optimizer.state_dict())
    plain, own = found
    assert own["param_groups"] == plain["param_groups"]
    described = [
        {
            key: {entry: (value.shape, value.dtype) for entry, value in state.items()}
            for key, state in one["state"].items()
        }
        for one in (plain, own)
    ]
    assert described[0] == described[1]


@pytest.mark.parametrize(("name", "options"), OWN)
def test_training_goes_on_from_an_own_checkpoint(name, options):
    model, reference = network(), network()
    first = optimizer_of(flat, name, model, options)
    train(model, first, range(4))
    second = optimizer_of(flat, name, model, options)
    second.load_state_dict(saved(first))
    train(model, second, range(4, 8))
    train(reference, optimizer_of(flat, name, reference, options), range(8))
    for own, expected in zip(model.parameters(), reference.parameters(), strict=True):
        assert torch.equal(own, expected)


def test_loading_in_the_middle_of_training_takes_the_loaded_state():
    model = network()
    optimizer = flat.AdamW(model.parameters())
    train(model, optimizer, range(2))
    values, state = copy.deepcopy(model.state_dict()), copy.deepcopy(optimizer.state_dict())
    train(model, optimizer, range(2, 5))
    expected = copy.deepcopy(model.state_dict())
    model.load_state_dict(values)
    optimizer.load_state_dict(state)
    train(model, optimizer, range(2, 5))
    assert all(
        torch.equal(one, other) for one, other in zip(model.state_dict().values(), expected.values(), strict=True)
    )


def test_the_loaded_dictionary_is_not_changed_by_training():
    model = network()
    optimizer = flat.Adam(model.parameters())
    train(model, optimizer, range(2))
    state = copy.deepcopy(optimizer.state_dict())
    before = copy.deepcopy(state)
    optimizer.load_state_dict(state)
    train(model, optimizer, range(2, 4))
    assert all(
        torch.equal(value, before["state"][key][entry])
        for key, one in state["state"].items()
        for entry, value in one.items()
    )


def test_each_parameter_has_its_own_number_of_steps():
    used, rare = (torch.ones(3, requires_grad=True) for _ in range(2))
    twins = [one.detach().clone().requires_grad_() for one in (used, rare)]
    own, plain = flat.Adam([used, rare]), torch.optim.Adam(twins)
    for step in range(6):
        for optimizer, pair in ((own, (used, rare)), (plain, twins)):
            optimizer.zero_grad()
            (pair[0].pow(2).sum() + (pair[1].pow(3).sum() if step % 3 == 1 else 0)).backward()
            optimizer.step()
    assert [int(own.state[one]["step"]) for one in (used, rare)] == [6, 2]
    for one, other in zip((used, rare), twins, strict=True):
        torch.testing.assert_close(one, other)


def test_a_cleared_state_begins_anew():
    parameter, plain = (torch.ones(3, requires_grad=True) for _ in range(2))
    for kind, one in ((flat.Adam, parameter), (torch.optim.Adam, plain)):
        optimizer = kind([one])
        for step in range(4):
            if step == 2:
                optimizer.state.clear()
            optimizer.zero_grad()
            one.pow(2).sum().backward()
            optimizer.step()
    torch.testing.assert_close(parameter, plain)


def test_a_copied_optimizer_steps_by_itself():
    parameter = torch.ones(3, requires_grad=True)
    optimizer = flat.Adam([parameter])
    parameter.sum().backward()
    optimizer.step()
    twin = copy.deepcopy(optimizer)
    (copied,) = twin.param_groups[0]["params"]
    copied.grad = torch.ones(3)
    twin.step()
    assert int(twin.state[copied]["step"]) == 2
    assert int(optimizer.state[parameter]["step"]) == 1
    assert not torch.equal(copied, parameter)
