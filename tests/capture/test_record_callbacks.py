from __future__ import annotations

import pickle
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import jumar
from jumar.base.errors import UsageError
from jumar.capture import record
from jumar.recording import Recording


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


class Trainer:
    """Calls a callback in the order in which Lightning does; validates in the middle of each epoch."""

    def __init__(self, callback: Any, *, fails: bool = False) -> None:
        self.callback = callback
        self.global_rank = 0
        self.strategy = types.SimpleNamespace(barrier=lambda: None)
        self.fails = fails

    def fit(self, model: nn.Module, num_steps: int = 4) -> list[float]:
        updates = torch.optim.SGD(model.parameters(), lr=0.1)
        losses = []
        self.callback.on_train_start(self, model)
        try:
            for step in range(num_steps):

                def closure() -> torch.Tensor:
                    updates.zero_grad()
                    loss = nn.functional.mse_loss(model(torch.ones(2, 3)), torch.zeros(2, 1))
                    loss.backward()
                    return loss.detach()

                losses.append(float(updates.step(closure)))
                self.callback.on_validation_start(self, model)
                torch.linalg.det(torch.eye(2))
                model(torch.ones(1, 3))
                self.callback.on_validation_end(self, model)
                if self.fails and step == 1:
                    raise ValueError("diverged")
        except ValueError as error:
            self.callback.on_exception(self, model, error)
            raise
        self.callback.on_train_end(self, model)
        return losses


def _model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 1))


class Silent:
    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *args, **kwargs: None


def test_a_callback_of_lightning_records_training_and_no_validation(library, tmp_path: Path) -> None:
    base = library("lightning.pytorch", "Callback")
    callback = jumar.LightningRecorder(tmp_path / "r", values="stats")
    assert isinstance(callback, base)
    assert isinstance(callback, jumar.LightningRecorder)
    losses = Trainer(callback).fit(_model())
    recording = Recording.open(tmp_path / "r")
    assert losses == Trainer(Silent()).fit(_model())
    assert [torch.tensor(loss).item() for loss in losses] == [loss for _, loss in recording.losses()]
    rows = [row for step in recording.steps() for row in recording.rows(step)]
    assert not [row for row in rows if "linalg_det" in row.name or "eye" in row.name]
    assert [row.module_path for row in recording.rows(1) if row.name == "aten::addmm"] == ["0", "1"]
    assert (recording.ends[0].status, callback.session) == ("finished", None)


def test_what_a_closure_of_an_optimizer_computes_is_forward_and_backward(library, tmp_path: Path) -> None:
    library("lightning.pytorch", "Callback")
    Trainer(jumar.LightningRecorder(tmp_path / "r")).fit(_model())
    rows = Recording.open(tmp_path / "r").rows(1)
    assert {row.phase for row in rows if row.name == "aten::mse_loss"} == {"forward"}
    assert {row.phase for row in rows if row.name == "aten::add_.Tensor"} >= {"optimizer"}


def test_a_training_that_raises_keeps_its_steps_and_says_how_it_ended(library, tmp_path: Path) -> None:
    library("lightning.pytorch", "Callback")
    with pytest.raises(ValueError, match="diverged"):
        Trainer(jumar.LightningRecorder(tmp_path / "r"), fails=True).fit(_model())
    end = Recording.open(tmp_path / "r").ends[0]
    assert (end.status, "diverged" in end.error, end.num_steps) == ("raised", True, 2)


def test_under_jumar_record_a_callback_only_says_what_is_training(library, tmp_path: Path) -> None:
    library("lightning.pytorch", "Callback")
    with record(tmp_path / "outer"):
        Trainer(jumar.LightningRecorder(tmp_path / "inner")).fit(_model())
    recording = Recording.open(tmp_path / "outer")
    assert (recording.steps(), (tmp_path / "inner").exists()) == ([0, 1, 2, 3], False)
    assert not [row for step in recording.steps() for row in recording.rows(step) if "linalg_det" in row.name]


def test_a_callback_of_hugging_face_records_from_a_steps_begin_to_its_end(library, tmp_path: Path) -> None:
    base = library("transformers.trainer_callback", "TrainerCallback")
    callback = jumar.HuggingFaceRecorder(tmp_path / "r", steps=(1, 3))
    assert isinstance(callback, base)
    assert callback.teardown() == "the library's own"
    model, state = _model(), types.SimpleNamespace(process_index=0)
    updates = torch.optim.SGD(model.parameters(), lr=0.1)
    callback.on_train_begin(state, None, None, model=model)
    for _ in range(4):
        torch.linalg.det(torch.eye(2))
        callback.on_step_begin(state, None, None)
        for _ in range(2):
            model(torch.ones(2, 3)).sum().backward()
        updates.step()
        callback.on_step_end(state, None, None)
    callback.on_train_end(state, None, None)
    recording = Recording.open(tmp_path / "r")
    assert recording.steps() == [1, 2]
    assert [sum(row.kind == "loss" for row in recording.rows(step)) for step in (1, 2)] == [2, 2]
    assert not [row for row in recording.rows(1) if "linalg_det" in row.name]


def test_the_library_that_the_program_imported_is_the_one(library, tmp_path: Path) -> None:
    base = library("pytorch_lightning", "Callback")
    assert isinstance(jumar.LightningRecorder(tmp_path / "r"), base)


@pytest.mark.parametrize(
    ("name", "missing"),
    [
        ("LightningRecorder", ["lightning", "lightning.pytorch", "pytorch_lightning"]),
        ("HuggingFaceRecorder", ["transformers", "transformers.trainer_callback"]),
    ],
)
def test_without_the_library_one_sentence_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, missing: list[str]
) -> None:
    for module in missing:
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(UsageError, match=f"{name} needs {missing[0]}, which cannot be imported.*pip install"):
        getattr(jumar, name)(tmp_path / "r")


def test_arguments_are_checked_when_the_callback_is_made(library, tmp_path: Path) -> None:
    library("lightning.pytorch", "Callback")
    with pytest.raises(UsageError, match="leaves no room"):
        jumar.LightningRecorder(tmp_path / "r", budget="0")


def test_a_callback_travels_to_spawned_ranks_and_a_subclass_stays_one(library, tmp_path: Path) -> None:
    library("lightning.pytorch", "Callback")
    travelled = pickle.loads(pickle.dumps(jumar.LightningRecorder(tmp_path / "r", steps=(0, 2))))
    assert isinstance(travelled, jumar.LightningRecorder)


def test_a_real_lightning_trainer_gives_the_same_losses_and_every_step(tmp_path: Path) -> None:
    lightning = pytest.importorskip("lightning.pytorch", reason="lightning is not installed")

    class Module(lightning.LightningModule):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.net = _model()
            self.losses: list[float] = []

        def training_step(self, batch: Any, index: int) -> torch.Tensor:
            loss = nn.functional.mse_loss(self.net(batch), torch.zeros(len(batch), 1))
            self.losses.append(loss.item())
            return loss

        def validation_step(self, batch: Any, index: int) -> None:
            torch.linalg.det(torch.eye(2))

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.AdamW(self.parameters(), lr=1e-2)

    def fit(callbacks: list[Any]) -> list[float]:
        loader = torch.utils.data.DataLoader(torch.arange(24.0).view(8, 3), batch_size=2)
        trainer = lightning.Trainer(
            max_epochs=2, accumulate_grad_batches=2, callbacks=callbacks, accelerator="cpu", logger=False,
            enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
        )  # fmt: skip
        module = Module()
        trainer.fit(module, loader, loader)
        return module.losses

    assert fit([jumar.LightningRecorder(tmp_path / "r")]) == fit([])
    recording = Recording.open(tmp_path / "r")
    assert recording.steps() == [0, 1, 2, 3]
    assert not [row for row in recording.rows(2) if "linalg_det" in row.name]


def test_a_real_trainer_of_hugging_face_gives_the_same_losses_and_every_step(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    pytest.importorskip("accelerate", reason="accelerate is not installed")

    def train(callbacks: list[Any]) -> list[float]:
        transformers.set_seed(0)
        config = transformers.GPT2Config(n_layer=1, n_embd=8, n_head=2, vocab_size=16, n_positions=8)
        tokens = [{"input_ids": torch.arange(8) + item % 4, "labels": torch.arange(8)} for item in range(8)]
        arguments = transformers.TrainingArguments(
            output_dir=str(tmp_path / "out"), per_device_train_batch_size=2, gradient_accumulation_steps=2,
            num_train_epochs=2, eval_strategy="epoch", logging_steps=1, report_to=[], save_strategy="no",
            use_cpu=True, disable_tqdm=True,
        )  # fmt: skip
        trainer = transformers.Trainer(
            model=transformers.GPT2LMHeadModel(config), args=arguments, train_dataset=tokens, eval_dataset=tokens,
            callbacks=callbacks,
        )  # fmt: skip
        trainer.train()
        return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]

    assert train([jumar.HuggingFaceRecorder(tmp_path / "r")]) == train([])
    assert Recording.open(tmp_path / "r").steps() == [0, 1, 2, 3]
