"""What a training step is looked up by, and plans of steps that this process cannot run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import fx

from jumar.base.native import CompilerError
from jumar.tune.backend.compilation import Compilation
from jumar.tune.backend.training import applied, source_digest
from jumar.tune.engines.training import batch_norm
from jumar.tune.model.errors import TuneError
from jumar.tune.plan import Plan, Region


def compilation() -> Compilation:
    return Compilation(module=fx.symbolic_trace(lambda x: x.relu()), arguments=[torch.ones(2, 3)], patches={})


def test_a_step_under_autocast_is_another_one() -> None:
    """Else a module that was met under autocast first would be refused without it, in each later process, too."""
    plain = source_digest(compilation())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert source_digest(compilation()) != plain
    assert source_digest(compilation()) == plain


def test_a_step_in_another_default_dtype_is_another_one() -> None:
    plain = source_digest(compilation())
    torch.set_default_dtype(torch.float64)
    try:
        digest = source_digest(in_float32(compilation()))
    finally:
        torch.set_default_dtype(torch.float32)
    assert digest != plain


def in_float32(made: Compilation) -> Compilation:
    return Compilation(module=made.module, arguments=[torch.ones(2, 3, dtype=torch.float32)], patches={})


def test_steps_are_told_apart_by_the_bodies_that_they_call() -> None:
    """As of activation checkpoints, whose body is a module of its own."""
    bodies = [fx.symbolic_trace(function) for function in (lambda x: x.relu(), lambda x: x.tanh())]
    graph = fx.Graph()
    graph.output(graph.call_module("body", (graph.placeholder("x"),)))
    digests = set()
    for body in bodies:
        outer = fx.GraphModule({"body": body}, graph)
        digests.add(source_digest(Compilation(module=outer, arguments=[torch.ones(2)], patches={})))
    assert len(digests) == 2


@pytest.fixture
def no_compiler(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def compiled(_source: Path, **_: object) -> Path:
        raise CompilerError("there is no C++ compiler")

    monkeypatch.setattr(batch_norm, "compiled", compiled)
    batch_norm._library.cache_clear()
    yield
    batch_norm._library.cache_clear()


@pytest.mark.usefixtures("no_compiler")
def test_a_plan_whose_kernel_cannot_be_built_is_refused_before_it_runs() -> None:
    settings = {"layout": "channels_last", "products": True, "norms": True}
    with pytest.raises(TuneError, match="cannot be built: there is no C"):
        applied(compilation(), Plan(regions=(Region(nodes=(), engine="eager", settings=settings),)))
