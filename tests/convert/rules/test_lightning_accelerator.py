"""Lightning gets an accelerator for NPUs, which it lacks; what is not written out is reported and left."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from convert_cases import outcome

CLASS = "class NPUAccelerator(CUDAAccelerator):"


def converted(source: str) -> str:
    after = outcome(source).after.decode()
    assert outcome(after).after.decode() == after, "a second conversion changes it"
    return after


def findings(source: str) -> list[str]:
    return [found.message for found in outcome(source).findings if found.code == "JM199"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("Trainer(accelerator='gpu', devices=1)", "Trainer(accelerator=NPUAccelerator(), devices=1)"),
        ("Trainer(devices=1)", "Trainer(devices=1, accelerator=NPUAccelerator())"),
        ("Trainer()", "Trainer(accelerator=NPUAccelerator())"),
        ("Trainer(accelerator='auto', **more)", "Trainer(accelerator=NPUAccelerator(), **more)"),
        (
            "Trainer(accelerator='cuda', precision='16-mixed', devices=1)",
            "Trainer(accelerator=NPUAccelerator(), plugins=MixedPrecision('16-mixed', 'npu'), devices=1)",
        ),
    ],
)
@pytest.mark.parametrize(
    ("imported", "home"),
    [
        ("from lightning import Trainer", "lightning.pytorch"),
        ("from lightning.pytorch import Trainer", "lightning.pytorch"),
        ("from pytorch_lightning import Trainer", "pytorch_lightning"),
    ],
)
def test_a_trainer_for_gpus_gets_the_class_which_the_file_then_has(imported, home, before, after) -> None:
    text = converted(f"import torch\n{imported}\n\nmore = {{}}\ntrainer = {before}\nother = {before}\n")
    assert f"trainer = {after}\nother = {after}\n" in text
    assert text.count(CLASS) == text.count(f"from {home}.accelerators import CUDAAccelerator") == 1
    assert text.count("import torch\n") == text.count("import torch_npu") == 1
    assert ("DDPStrategy" in text) is ("devices=1" not in before)


def test_fabric_gets_it_from_its_own_package() -> None:
    text = converted("import lightning as L\n\nfabric = L.Fabric(accelerator='gpu', devices=2)\n")
    assert "from lightning.fabric.accelerators import CUDAAccelerator" in text
    assert "DDPStrategy._determine_ddp_device_ids = lambda self: None" in text
    assert "L.Fabric(accelerator=NPUAccelerator(), devices=2)" in text


@pytest.mark.parametrize(
    "call",
    [
        "Trainer(accelerator='cpu')",
        "Trainer(accelerator=chosen)",
        "Trainer(gpus=2)",
        "Trainer(**chosen)",
        "cpu('cuda')",
    ],
)
def test_other_choices_stay(call: str) -> None:
    source = f"from lightning import Trainer\n\ntrainer = {call}\n"
    assert CLASS not in converted(source)
    assert f"trainer = {call}" in converted(source)


@pytest.mark.parametrize("call", ["Trainer(**chosen)", "make(accelerator='cuda')"])
def test_what_is_not_written_out_is_reported(call: str) -> None:
    source = f"from lightning import Trainer\n\ntrainer = {call}\n"
    assert len(findings(source)) == 1
    assert call in converted(source)


SCRIPT = """
import torch
from {package} import LightningModule, Trainer, seed_everything
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Classifier(LightningModule):
    def __init__(self):
        super().__init__()
        self.network = nn.Linear(12, 3)

    def training_step(self, batch, _index):
        return nn.functional.cross_entropy(self.network(batch[0]), batch[1])

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


seed_everything(0)
data = TensorDataset(torch.randn(24, 12), torch.randint(0, 3, (24,)))
trainer = Trainer(max_epochs=1, {arguments}, logger=False, enable_checkpointing=False, enable_progress_bar=False)
trainer.fit(Classifier(), DataLoader(data, batch_size=4))
"""


@pytest.mark.slow
@pytest.mark.parametrize("package", ["lightning", "pytorch_lightning"])
@pytest.mark.parametrize("arguments", ["devices=1, precision='16-mixed'", "accelerator='gpu', devices=2"])
def test_what_is_written_trains_on_the_npu_as_on_cuda(tmp_path: Path, package: str, arguments: str) -> None:
    pytest.importorskip(package)
    importlib.import_module(package)
    (tmp_path / "train.py").write_text(SCRIPT.format(package=package, arguments=arguments))
    command = [
        sys.executable,
        "-c",
        "from jumar.cli.main import run; run()",
        "port",
        "--json",
        "--steps",
        "2",
        "train.py",
    ]
    done = subprocess.run(
        command, cwd=tmp_path, env=os.environ | {"OMP_NUM_THREADS": "1"}, capture_output=True, text=True, check=False
    )
    assert json.loads(done.stdout)["page"]["verdict"]["status"] == "fine", done.stdout
