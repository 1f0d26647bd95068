"""The blocks of the README work as they stand there, in a fresh folder that holds what they name."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

README = (Path(__file__).parents[2] / "README.md").read_text("utf-8")
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

TRAIN = """\
    import argparse
    import torch

    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=1)
    epochs = parser.parse_args().epochs
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU(APPROXIMATE), torch.nn.Linear(8, 2)).to("DEVICE")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(epochs):
        for step in range(3):
            loss = model(torch.randn(4, 8).to("DEVICE")).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    """
MAIN = """\
    import torch


    def main():
        data = torch.utils.data.TensorDataset(torch.randn(8, 4))
        loader = torch.utils.data.DataLoader(data, batch_size=4)
        model = torch.nn.Linear(4, 2).cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for (x,) in loader:
            loss = model(x.cuda()).sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


    if __name__ == "__main__":
        main()
    """
SUITE = """\
    import torch


    def test_a_tensor_is_on_the_device(device):
        assert torch.ones(2, device=device).sum().item() == 2
    """
NOT_RUN = {
    "pip install": "installs packages",
    "jumar tune": "takes as long as its budget; tests/tune run what it does",
    "AOE_MODE=1": "takes as long as its budget; tests/tune run what it does",
    "jumar bank why-miss": "needs what tuning leaves",
}
"""Beginnings of commands -> why they do not run here."""
BEFORE = {
    "jumar replay": [  # the comment above it says so
        "jumar record --force -o gpu --steps 0:3 --values tensors --device cuda train.py",
        "jumar record --force -o npu --steps 0:3 --values tensors train_npu.py",
    ],
    "jumar dump list": [
        "jumar record -o whole --steps 0:1 --values tensors train_npu.py",
        "jumar dump to-hdf5 whole -o dump.h5",
    ],
}
"""Beginnings of commands -> what makes the files that they name."""
REPORTING = ["convert", "compare", "replay", "overflow", "accuracy", "assess", "advise", "doctor"]
FINDINGS = tuple(f"jumar {name}" for name in REPORTING)
"""Commands whose exit code may be 1: they report what they find."""


def blocks(heading: str) -> list[tuple[str, str]]:
    """Return the language and the text of each block under a heading."""
    section = next(part for part in re.split(r"^## ", README, flags=re.MULTILINE) if part.startswith(f"{heading}\n"))
    return [(found[1], found[2]) for found in BLOCK.finditer(section)]


HEADINGS = [
    heading
    for heading in re.findall(r"^## (.+)$", README, re.MULTILINE)
    if any(language == "bash" for language, _ in blocks(heading))
]


def commands(heading: str) -> list[str]:
    """Return the commands of a section, without the comments behind them."""
    lines = [line for language, text in blocks(heading) if language == "bash" for line in text.splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    import torch

    on_npu = textwrap.dedent(TRAIN).replace("DEVICE", "npu").replace("GELU(APPROXIMATE)", "GELU('tanh')")
    for name, text in {
        "train.py": TRAIN.replace("DEVICE", "cuda").replace("APPROXIMATE", ""),
        "train_npu.py": f"import torch_npu\n{on_npu}",  # differs in GELU, as the README shows
        "project/train.py": MAIN,
        "test_device.py": SUITE,
        "train.log": "step 1\nEI0002: The wait execution of the Notify register times out.\n",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(textwrap.dedent(text))
    torch.save({"module.weight": torch.ones(2)}, tmp_path / "in.pth")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JUMAR_BANK", str(tmp_path / "bank.db"))
    return tmp_path


def run(command: str) -> None:
    bin_folder = str(Path(sys.executable).parent)
    environment = {**os.environ, "PATH": os.pathsep.join([bin_folder, os.environ["PATH"]])}
    done = subprocess.run(["bash", "-c", command], env=environment, capture_output=True, text=True, check=False)
    allowed = {0, 1} if command.startswith(FINDINGS) else {0}
    assert done.returncode in allowed, f"{command}\n{done.stdout}{done.stderr}"
    assert "Traceback" not in done.stderr, f"{command}\n{done.stderr}"


def test_every_block_of_commands_is_in_a_section_that_is_tried() -> None:
    tried = sum(language == "bash" for heading in HEADINGS for language, _ in blocks(heading))
    assert tried == README.count("```bash\n") > 5
    assert all(begin in README for begin in NOT_RUN)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("heading", [name for name in HEADINGS if name != "Set up"])
def test_the_commands_of_a_section_work_one_after_another(heading: str, folder: Path) -> None:
    for command in commands(heading):
        if command.startswith(tuple(NOT_RUN)) or "pip install" in command or re.match(r"M=", command):
            continue
        for before in next((lines for begin, lines in BEFORE.items() if command.startswith(begin)), []):
            run(before)
        run(command)
