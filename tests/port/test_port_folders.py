"""Projects as people keep them: installed in editable mode, started from the root, at work in a folder of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

MODEL = """\
    import torch


    def make(size):
        return torch.nn.Linear(size, 2).cuda()
    """
TRAIN = """\
    import argparse

    import torch

    from cells.model import make


    def fit(size):
        torch.manual_seed(0)
        model = make(size)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(3):
            loss = model(torch.full((2, size), float(step)).cuda()).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        torch.save(model.state_dict(), "model.pt")


    def main():
        parser = argparse.ArgumentParser()
        parser.add_argument("--size", type=int, required=True)
        fit(parser.parse_args().size)


    if __name__ == "__main__":
        main()
    """
SCRIPT = """\
    from cells.train import main

    if __name__ == "__main__":
        main()
    """
HYDRA = """\
    import hydra

    from cells.train import fit


    @hydra.main(config_path="../conf", config_name="config", version_base=None)
    def main(configuration):
        fit(configuration.size)


    if __name__ == "__main__":
        main()
    """
AS_HYDRA = """\
    import os
    from pathlib import Path

    from cells.train import fit

    if __name__ == "__main__":
        size = int((Path(__file__).parent.parent / "conf" / "size.txt").read_text())
        os.makedirs("outputs/first")
        os.chdir("outputs/first")
        fit(size)
    """
FINDER = """\
    import sys
    from importlib.util import spec_from_file_location
    from pathlib import Path

    PLACE = {place!r}


    class Finder:
        @classmethod
        def find_spec(cls, name, path=None, target=None):
            if name != "cells":
                return None
            return spec_from_file_location(name, Path(PLACE, "__init__.py"), submodule_search_locations=[PLACE])


    def install():
        sys.meta_path.append(Finder)
    """


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return the root of a repository whose package is in `src`."""
    files = {
        "src/cells/__init__.py": "",
        "src/cells/model.py": MODEL,
        "src/cells/train.py": TRAIN,
        "scripts/train.py": SCRIPT,
        "scripts/hydra_train.py": HYDRA,
        "scripts/as_hydra.py": AS_HYDRA,
        "conf/config.yaml": "size: 4\nhydra:\n  job:\n    chdir: true\n",
        "conf/size.txt": "4",
        ".git/HEAD": "",
    }
    root = tmp_path / "repository"
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(textwrap.dedent(text))
    return root


def installed(root: Path, by: str) -> Path:
    """Install the project in editable mode into a folder, as pip does; return what makes Python look there."""
    site, hook = root.parent / "site", root.parent / "hook"
    site.mkdir()
    hook.mkdir()
    (hook / "sitecustomize.py").write_text(f"import site\nsite.addsitedir({str(site)!r})\n")
    if by == "path":
        (site / "__editable__.cells.pth").write_text(f"{root / 'src'}\n")
    else:
        (site / "__editable___cells_finder.py").write_text(
            textwrap.dedent(FINDER).replace("{place!r}", repr(str(root / "src" / "cells")))
        )
        (site / "__editable__.cells.pth").write_text(
            "import __editable___cells_finder; __editable___cells_finder.install()\n"
        )
    return hook


def ported(root: Path, hook: Path, *words: str) -> dict[str, Any]:
    command = [sys.executable, "-c", "from jumar.cli.main import run; run()", "port", "--json", "--steps", "2", *words]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(hook), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode in {0, 1}, done.stderr[-3000:]
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def converted(root: Path) -> set[str]:
    lines = (root / "jumar-port" / "changes.patch").read_text().splitlines()
    return {line.removeprefix("+++ b/") for line in lines if line.startswith("+++ ")}


def files_of(root: Path) -> set[str]:
    return {path.relative_to(root).as_posix() for path in root.rglob("*") if "jumar-port" not in path.parts}


@pytest.mark.parametrize("by", ["path", "finder"])
@pytest.mark.parametrize(
    "words",
    [
        ["scripts/train.py", "--", "--size", "5"],
        ["torchrun", "--standalone", "--nproc-per-node", "2", "-m", "cells.train", "--size", "5"],
    ],
    ids=["script", "module"],
)
def test_a_project_installed_in_editable_mode_is_converted_and_observed(
    project: Path, by: str, words: list[str]
) -> None:
    before = files_of(project)
    answer = ported(project, installed(project, by), *words)
    assert answer["page"]["verdict"]["status"] == "fine", answer["page"]["verdict"]
    assert converted(project) == {"src/cells/model.py", "src/cells/train.py"}
    assert files_of(project) == before


@pytest.mark.parametrize("script", ["as_hydra", "hydra_train"])
def test_a_script_that_works_in_a_folder_of_its_own_leaves_the_users_alone(project: Path, script: str) -> None:
    if script == "hydra_train":
        pytest.importorskip("hydra")
    before = files_of(project)
    answer = ported(project, installed(project, "path"), f"scripts/{script}.py")
    assert answer["page"]["verdict"]["status"] == "fine", answer["page"]["verdict"]
    assert converted(project) == {"src/cells/model.py", "src/cells/train.py"}
    assert files_of(project) == before
