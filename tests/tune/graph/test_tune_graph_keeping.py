"""A model that is captured is afterwards as it was, whatever its forward keeps, and where."""

from __future__ import annotations

import random
from collections import OrderedDict, deque
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn

from jumar.tune.graph.capture.capture import graph_of_module
from jumar.tune.graph.capture.factory import graphs_of_pieces
from jumar.tune.graph.capture.keeping import Kept
from jumar.tune.model.errors import TuneError


class _Odd(nn.Module):
    """Calls `change` in each forward, and computes `x * 2`."""

    calls = 0

    def __init__(self, change):
        super().__init__()
        self.inner = nn.Linear(2, 2)
        self.change = change
        self.count = 0
        self.cache = {}
        self.past = []
        self.queue = deque([1, 2], maxlen=2)
        self.names = {"a"}
        self.order = OrderedDict(a=1)
        self.held = SimpleNamespace(state=SimpleNamespace(step=0, sums=torch.zeros(2)))
        self.plain = [torch.ones(3)]
        self.array = np.zeros(3)
        self.generator = torch.Generator().manual_seed(5)
        self.register_buffer("mean", torch.zeros(2))

    def forward(self, x):
        self.change(self)
        return self.inner(x) * 2


def _hooks_once(model):
    if not getattr(model, "_hooked", False):
        model._hooked = True
        model.inner.register_forward_hook(lambda module, args, result: result + 1)


def _hooks_once_by_closure():
    done = False

    def change(model):
        nonlocal done
        if not done:
            done = True
            model.inner.register_forward_pre_hook(lambda module, args: (args[0] + 1,))

    return change


def _new_parts(model):
    if not hasattr(model, "made"):
        model.made = nn.Linear(2, 2)
        model.register_buffer("other", torch.zeros(1))


def _class_attribute(model):
    type(model).calls += 1


CHANGES = {
    "hooks and a flag": _hooks_once,
    "hooks and a closure's flag": _hooks_once_by_closure(),
    "a hook in each call": lambda model: model.register_forward_hook(lambda *_: None),
    "a counter": lambda model: setattr(model, "count", model.count + 1),
    "a cache": lambda model: model.cache.update({len(model.cache): 1}),
    "a list": lambda model: model.past.append(1),
    "a queue": lambda model: model.queue.append(3),
    "a set": lambda model: model.names.add("b"),
    "an order": lambda model: model.order.move_to_end("a") or model.order.update(b=2),
    "an object's attribute": lambda model: setattr(model.held.state, "step", model.held.state.step + 1),
    "a tensor of an object": lambda model: model.held.state.sums.add_(1),
    "a tensor in a list": lambda model: model.plain[0].mul_(3),
    "an array": lambda model: model.array.__iadd__(1),
    "a generator": lambda model: torch.rand(1, generator=model.generator),
    "a buffer": lambda model: model.mean.add_(1),
    "another buffer": lambda model: setattr(model, "mean", torch.ones(2)),
    "the mode": lambda model: model.train(),
    "gradients": lambda model: model.inner.weight.requires_grad_(False),
    "new parts": _new_parts,
    "less": lambda model: model.__dict__.pop("past", None),
    "a class attribute": _class_attribute,
    "another class": lambda model: setattr(model, "change", lambda model: None),
    "random numbers": lambda model: (torch.rand(1), random.random(), np.random.rand()),
    "a seed": lambda model: (torch.manual_seed(3), random.seed(3), np.random.seed(3)),
    "the default dtype": lambda model: torch.set_default_dtype(torch.float64),
    "grad mode": lambda model: torch.set_grad_enabled(False),
    "deterministic": lambda model: torch.use_deterministic_algorithms(True, warn_only=True),
    "an error": lambda model: (model.past.append(1), 1 / 0),
}


def _state(model):
    """Describe all that a change may change."""
    parts = [
        (name, len(part._forward_hooks), len(part._forward_pre_hooks), part.training)
        for name, part in model.named_modules()
    ]
    plain = {name: repr(value) for name, value in sorted(vars(model).items()) if not name.startswith("_")}
    modes = [torch.is_grad_enabled(), torch.get_default_dtype(), torch.are_deterministic_algorithms_enabled()]
    randoms = [torch.get_rng_state().sum().item(), random.getstate(), np.random.get_state()[1].sum()]
    tensors = {name: value.tolist() for name, value in model.named_buffers()}
    generator = model.generator.get_state().tolist()
    grads = [one.requires_grad for one in model.parameters()]
    return (
        parts,
        plain,
        modes,
        randoms,
        tensors,
        generator,
        grads,
        type(model).calls,
        Path.cwd(),
        "_hooked" in vars(model),
    )


@pytest.mark.parametrize("is_training", [False, True])
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_forward_keeps_is_put_back(tmp_path, change, is_training):
    model = _Odd(change).train(is_training)
    x = torch.randn(1, 2)
    before = _state(model)
    with suppress(TuneError):  # not every one of them is a function; all of them are put back
        graph_of_module(model, (x,), folder=tmp_path)
    assert _state(model) == before


def test_a_model_that_adds_hooks_at_its_first_call_is_captured_as_it_computes(tmp_path):
    model = _Odd(_hooks_once).eval()
    x = torch.randn(1, 2)
    captured = graph_of_module(model, (x,), folder=tmp_path)
    assert not captured.reason_not_tuned
    assert not model.inner._forward_hooks
    with torch.no_grad():
        first, second = model(x), model(x)
    assert len(model.inner._forward_hooks) == 1
    assert torch.equal(first, second)


def test_a_model_in_pieces_is_left_as_it_was(tmp_path):
    class Pieces(_Odd):
        def forward(self, x):
            y = super().forward(x)
            return self.inner(y) if y.sum().item() > 0 else y

    model, x = Pieces(_hooks_once).eval(), torch.randn(1, 2)
    before = _state(model)
    assert graphs_of_pieces(model, (x,), {}, folder=tmp_path, name="net", origin="")
    assert _state(model) == before


_VALUES = st.recursive(
    st.integers(0, 3) | st.builds(lambda: torch.zeros(2)),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
        | st.builds(lambda value: SimpleNamespace(a=value), inner)
        | st.builds(deque, st.lists(inner, max_size=2))
    ),
    max_leaves=12,
)


def _spoil(value, draw):
    """Change a value in place, here and below."""
    held = list(vars(value).values()) if isinstance(value, SimpleNamespace) else value
    if isinstance(value, torch.Tensor):
        value.add_(1)
        return
    if isinstance(value, int):
        return
    for one in list(held.values()) if isinstance(held, dict) else list(held):
        _spoil(one, draw)
    kind = draw(st.sampled_from(["more", "less", "other"]))
    if isinstance(value, SimpleNamespace):
        value.a = kind
    elif isinstance(value, dict):
        value.clear() if kind == "less" else value.update(z=kind)
    else:
        value.clear() if kind == "less" else value.append(kind)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(value=_VALUES, data=st.data())
def test_any_nesting_of_containers_is_put_back(value, data):
    model = nn.Linear(1, 1)
    model.extra = value
    before = repr(value)
    kept = Kept(model)
    _spoil(model.extra, data.draw)
    model.extra = None
    kept.put_back()
    assert model.extra is value
    assert repr(value) == before
