"""`%load_ext jumar` in a real kernel: commands, cells on the emulated NPU, recorded cells, results as pages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")
pytestmark = pytest.mark.slow

CELLS = {
    "load": "%load_ext jumar",
    "rule": "%jumar rule JM101",
    "npu": "%%npu Ascend910A\nimport torch\nx = torch.ones(2, device='npu')\nprint((x + x).sum().item())",
    "name": "%%npu Ascend910A\nprint(torch.npu.get_device_name(0))",
    "model": "import torch\nmodel = torch.nn.Linear(4, 4)",
    "recorded": "%%jumar_record rec model\nloss = model(torch.ones(2, 4)).sum()\nloss.backward()",
    "compared": "%jumar compare rec rec --report page.html",
    "shown": "import jumar\njumar.compare('rec', 'rec')",
    "wrong": "%jumar rule JM999",
    "no folder": "%%jumar_record\n1 + 1",
    "no model": "%%jumar_record rec2 nothing\n1 + 1",
    "taken": "%%jumar_record rec model\nloss = 1",
}


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    folder = tmp_path_factory.mktemp("notebook")
    notebook = nbformat.v4.new_notebook()
    notebook.cells = [nbformat.v4.new_code_cell(text) for text in CELLS.values()]
    client = nbclient.NotebookClient(
        notebook, kernel_name="python3", timeout=200, allow_errors=True, resources={"metadata": {"path": str(folder)}}
    )
    client.execute()
    assert (folder / "rec" / "run.json").is_file()
    return {name: cell.outputs for name, cell in zip(CELLS, notebook.cells, strict=True)}


def text(items: list[Any]) -> str:
    """Everything that a cell printed or showed as text."""
    parts = [item.get("text") or item.get("data", {}).get("text/plain", "") for item in items]
    return "".join(parts) + "".join(str(item.get("evalue", "")) for item in items)


def test_a_command_prints_what_it_says(outputs: dict[str, list[Any]]) -> None:
    assert outputs["load"] == []
    assert "torch-cuda-api" in text(outputs["rule"])


def test_a_cell_runs_on_the_chip_that_is_named(outputs: dict[str, list[Any]]) -> None:
    assert "4.0" in text(outputs["npu"])
    assert "Ascend910A" in text(outputs["name"])


def test_a_cell_is_recorded_and_compared_and_its_page_is_shown(outputs: dict[str, list[Any]]) -> None:
    assert "recorded: rec" in text(outputs["recorded"])
    assert "The runs agree" in text(outputs["compared"])
    pages = [item["data"]["text/html"] for item in outputs["compared"] if "iframe" in str(item.get("data", {}))]
    assert len(pages) == 1
    assert "srcdoc=" in pages[0]


def test_a_result_is_shown_as_its_page(outputs: dict[str, list[Any]]) -> None:
    assert any("srcdoc=" in item.get("data", {}).get("text/html", "") for item in outputs["shown"])


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        ("wrong", "is not a rule"),
        ("no folder", "must be a folder"),
        ("no model", "there is none of that name"),
        ("taken", "rec"),
    ],
)
def test_wrong_use_is_one_sentence(cell: str, said: str, outputs: dict[str, list[Any]]) -> None:
    assert said in text(outputs[cell])
    assert "Traceback" not in str(outputs[cell])


def test_without_ipython_importing_jumar_needs_none(tmp_path: Path) -> None:
    import subprocess
    import sys

    program = "import sys, jumar; print(any(name.split('.')[0] == 'IPython' for name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
