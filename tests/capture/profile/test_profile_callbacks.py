"""Callbacks of Lightning and Hugging Face."""

from __future__ import annotations

import pickle
import sys
import types
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

import jumar
from jumar.base.errors import UsageError


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], type]:
    """Put a minimal stand-in for a library in place: a module with a base class of callbacks."""

    def make(name: str, attribute: str) -> type:
        base = type(attribute, (), {"teardown": lambda self: "the library's own"})
        parts = name.split(".")
        for end in range(1, len(parts) + 1):
            module = types.ModuleType(".".join(parts[:end]))
            module.__path__ = []
            monkeypatch.setitem(sys.modules, module.__name__, module)
        setattr(sys.modules[name], attribute, base)
        return base

    return make


def _steps(num_steps: int, between: Callable[[int], object], updates_a_step: int = 1) -> None:
    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(num_steps):
        for _ in range(updates_a_step):
            optimizer.zero_grad()
            model(torch.ones(2, 3)).sum().backward()
            optimizer.step()
        between(step)


def test_lightnings_validation_is_in_no_average(library, tmp_path: Path, rank_facts) -> None:
    base = library("lightning.pytorch", "Callback")
    callback = jumar.LightningProfiler(tmp_path / "p", schedule=(2, 0, 3))
    assert isinstance(callback, base)
    trainer = types.SimpleNamespace(global_rank=0, strategy=types.SimpleNamespace(barrier=lambda: None))
    callback.on_train_start(trainer, None)
    _steps(9, lambda step: callback.on_validation_start(trainer, None) if step == 2 else None)
    callback.on_train_end(trainer, None)
    facts = rank_facts(tmp_path / "p")
    assert (facts["status"], facts["num_traced"]) == ("finished", 3)
    assert facts["overhead"]["traced_ms"]["steps"] == [2, 4]


def test_a_training_of_lightning_that_raises_says_so(library, tmp_path: Path, rank_facts) -> None:
    library("lightning.pytorch", "Callback")
    callback = jumar.LightningProfiler(tmp_path / "p", schedule=(1, 0, 9))
    trainer = types.SimpleNamespace(global_rank=0, strategy=types.SimpleNamespace(barrier=lambda: None))
    callback.on_train_start(trainer, None)
    _steps(3, lambda _: None)
    callback.on_exception(trainer, None, ValueError("diverged"))
    facts = rank_facts(tmp_path / "p")
    assert (facts["status"], facts["num_traced"], "diverged" in facts["error"]) == ("raised", 2, True)


def test_hugging_faces_trainer_says_where_a_step_ends(library, tmp_path: Path, rank_facts) -> None:
    base = library("transformers.trainer_callback", "TrainerCallback")
    callback = jumar.HuggingFaceProfiler(tmp_path / "p", schedule=(1, 1, 2))
    assert isinstance(callback, base)
    assert callback.teardown() == "the library's own"
    args = types.SimpleNamespace(process_index=0)
    callback.on_train_begin(args, None, None, model=None)

    def between(step: int) -> None:
        callback.on_step_end(args, None, None)
        if step == 1:
            callback.on_evaluate(args, None, None, metrics={})

    _steps(8, between, updates_a_step=2)
    callback.on_train_end(args, None, None)
    facts = rank_facts(tmp_path / "p")
    assert (facts["num_traced"], facts["is_complete"]) == (2, True)
    assert facts["overhead"]["traced_ms"]["steps"] == [3]


def test_a_callback_travels_as_its_arguments(library, tmp_path: Path) -> None:
    library("pytorch_lightning", "Callback")
    callback = jumar.LightningProfiler(tmp_path / "p", schedule=(1, 1, 7), ranks=[0])
    again = pickle.loads(pickle.dumps(callback))
    assert type(again) is type(callback)
    assert again._profile.plan == callback._profile.plan
    assert not (tmp_path / "p").exists()


def test_a_library_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("transformers", "transformers.trainer_callback"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UsageError, match="HuggingFaceProfiler needs transformers"):
        jumar.HuggingFaceProfiler(tmp_path / "p")
