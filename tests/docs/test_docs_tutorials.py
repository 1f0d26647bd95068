"""The tutorials work as they stand: their files are written, their commands run one after another in a fresh folder."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "tutorials"
PAGES = sorted(FOLDER.glob("[0-9]-*.md"))
BLOCK = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LEFT = {
    "1-port": ["jumar-port/index.html", "model.pth", "model-cpu.pth", "train_gpu.py"],
    "2-wrong-loss": ["accuracy.html", "mended/run.json"],
    "3-slow-step": ["before.html", "after/profile.json"],
    "4-tune": ["net.jumar"],
    "5-two-ranks": ["jumar-port/index.html", "wrong/run.json"],
}
"""What a tutorial leaves, by its page."""
SAID = {
    "1-port": ["trains on the NPU as on the reference", "all on the device"],
    "2-wrong-loss": ["diverge first at aten::gelu in 1.act", "The runs agree"],
    "3-slow-step": ["of each step wait for data", "The step became faster"],
    "4-tune": ["greatest difference from the untuned model: "],
    "5-two-ranks": ["6 steps and 6 losses compared", "The runs diverge first at aten::copy_", "train_wrong.py:20"],
}
"""What its commands say, as the page shows it."""


def environment(folder: Path) -> dict[str, str]:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    home = {"HOME": str(folder / "home"), "XDG_DATA_HOME": str(folder / "home" / "data")}
    return {**os.environ, **home, "PATH": path, "COLUMNS": "200"}


def run(command: str, folder: Path) -> tuple[int, str]:
    done = subprocess.run(
        ["bash", "-e", "-c", command],
        cwd=folder,
        env=environment(folder),
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def test_every_tutorial_is_tried_and_listed() -> None:
    names = {page.stem for page in PAGES}
    assert names == LEFT.keys() == SAID.keys()
    listed = (FOLDER / "README.md").read_text("utf-8")
    assert all(f"({name}.md)" in listed for name in names)


@pytest.mark.parametrize("page", PAGES, ids=[page.stem for page in PAGES])
def test_the_commands_of_a_tutorial_work_one_after_another(page: Path, tmp_path: Path) -> None:
    work = tmp_path / "work"
    (work / "home").mkdir(parents=True)
    said = ""
    for info, text in BLOCK.findall(page.read_text("utf-8")):
        words = info.split()
        if words and words[-1].startswith("file="):
            (work / words[-1].removeprefix("file=")).write_text(text)
        elif words[:1] == ["bash"]:
            right = int(words[1].removeprefix("exit=")) if len(words) > 1 else 0
            code, output = run(text, work)
            assert code == right, f"{text}\n{output}"
            said += output
    for name in LEFT[page.stem]:
        assert (work / name).exists(), said
    for words in SAID[page.stem]:
        assert words in said, said
    if page.stem == "4-tune":
        assert float(said.split("untuned model: ")[1].split()[0]) < 1e-4


def test_the_notebook_is_that_of_the_page() -> None:
    script = runpy.run_path(str(ROOT / "scripts" / "build_notebook.py"))
    assert (FOLDER / "first.ipynb").read_text("utf-8") == script["notebook"](), "run scripts/build_notebook.py"


def test_the_notebook_runs_in_a_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    monkeypatch.setenv("PATH", os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    notebook = nbformat.read(FOLDER / "first.ipynb", as_version=4)
    nbclient.NotebookClient(
        notebook, kernel_name="python3", timeout=300, resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    text = str([cell.get("outputs") for cell in notebook.cells])
    assert "trains on the NPU as on the reference" in text
    assert "srcdoc=" in text
    assert (tmp_path / "model.pth").exists()
