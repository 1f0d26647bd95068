"""Every project module that a script imports is converted, wherever it lies; what Jumar prints then works there."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import textwrap
from pathlib import Path

import pytest

from jumar.cli.main import main

pytestmark = pytest.mark.slow

NET = """\
    import torch


    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = torch.nn.Linear(8, 4)

        def forward(self, x):
            return self.fc(x)


    def device():
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    """
TRAIN = """\
    torch.manual_seed(0)
    net = Net().to(device())
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(3):
        loss = net(torch.randn(4, 8, device=device())).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """
IMPORTS = {
    "python-path": ("lib/net.py", "import torch\nfrom lib.net import Net, device\n"),
    "source-layout": (
        "src/deep/lib/net.py",
        "import sys\nfrom pathlib import Path\n"
        "sys.path.insert(0, str(Path(__file__).resolve().parent.parent / 'src'))\n"
        "import torch\nfrom deep.lib.net import Net, device\n",
    ),
    "users-own-path": (
        "lib/net.py",
        "import sys\nsys.path.insert(0, {root!r})\nimport torch\nfrom lib.net import Net, device\n",
    ),
    "computed-name": (
        "lib/net.py",
        "import importlib, sys\nsys.path.append('.')\nimport torch\n"
        "found = importlib.import_module('.'.join(['lib', 'net']))\nNet, device = found.Net, found.device\n",
    ),
    "by-file": (
        "configs/net.py",
        "import runpy\nimport torch\nfound = runpy.run_path('configs/net.py')\n"
        "Net, device = found['Net'], found['device']\n",
    ),
}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "my project"
    root.mkdir()
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    monkeypatch.chdir(root)
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    return root


def write(root: Path, kind: str) -> Path:
    module, imports = IMPORTS[kind]
    files = {module: NET, "scripts/train.py": imports.replace("{root!r}", repr(str(root))) + textwrap.dedent(TRAIN)}
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(textwrap.dedent(text))
    return root / module


def page(out: str) -> dict:
    return json.loads((Path(out) / "findings.json").read_text())["page"]


def commands(out: str) -> list[str]:
    return [action["command"] for action in page(out)["actions"] if action["command"]]


@pytest.mark.parametrize("kind", IMPORTS)
def test_a_module_that_the_script_really_imports_is_converted(
    kind: str, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = write(project, kind)
    if kind == "python-path":
        monkeypatch.setenv("PYTHONPATH", str(project))
    assert main(["port", "-o", "result", "--steps", "2", "scripts/train.py"]) == 0
    verdict = page("result")["verdict"]
    assert verdict["status"] == "fine", verdict
    assert "2 steps and 2 losses compared" in verdict["headline"]
    assert "operator calls ran on the NPU" in verdict["headline"]
    assert module.relative_to(project).as_posix() in (project / "result" / "changes.patch").read_text()


def test_packages_that_pip_put_into_a_folder_of_the_path_are_none_of_the_project(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = write(project, "python-path")
    library = project / "libraries"
    files = {"helper/__init__.py": "import torch\nassert torch.cuda.is_available()\n", "single.py": ""}
    record = [f"{name},sha256=x,{len(text)}" for name, text in files.items()]
    for name, text in {**files, "helper-1.0.dist-info/RECORD": "\n".join(record)}.items():
        (library / name).parent.mkdir(parents=True, exist_ok=True)
        (library / name).write_text(text)
    script = project / "scripts" / "train.py"
    script.write_text(script.read_text() + "import single\nimport importlib\nimportlib.import_module('hel' + 'per')\n")
    monkeypatch.setenv("PYTHONPATH", f"{project}:{library}")
    assert main(["port", "-o", "result", "--steps", "2", "scripts/train.py"]) == 0
    patch = (project / "result" / "changes.patch").read_text()
    assert module.relative_to(project).as_posix() in patch
    assert "helper" not in patch
    converted = {path.name for path in (project / "result" / "converted").rglob("*.py")}
    assert "single.py" not in converted
    assert "net.py" in converted


def run_as_printed(command: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PATH": os.pathsep.join([str(Path(os.sys.executable).parent), os.environ["PATH"]])}  # type: ignore[attr-defined]
    return subprocess.run(["bash", "-c", command], env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("stands", [".", "scripts"])
def test_the_printed_commands_work_in_the_subfolder_of_a_repository_also_after_the_patch(
    stands: str, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = write(project, "python-path")
    monkeypatch.chdir(project / stands)
    monkeypatch.setenv("PYTHONPATH", str(project))
    script = os.path.relpath(project / "scripts" / "train.py")
    assert main(["port", "-o", "a result", "--steps", "2", "--seed", "7", script]) == 0
    apply, again = commands("a result")
    assert shlex.split(again)[1:3] == ["jumar", "port"]
    assert {"--force", "--seed", "7", "a result"} <= set(shlex.split(again))
    before = run_as_printed(again)
    assert before.returncode == 0, before.stderr
    monkeypatch.setenv("PYTHONPATH", "")  # the command brings it
    done = run_as_printed(apply)
    assert done.returncode == 0, done.stderr
    assert '"npu"' in module.read_text()
    for _ in range(2):
        after = run_as_printed(again)
        assert after.returncode == 0, after.stdout + after.stderr
        assert page("a result")["verdict"]["status"] == "fine"
        assert apply not in commands("a result")  # nothing is left to apply


def test_the_printed_commands_work_without_a_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "plain"
    module = write(root, "source-layout")
    monkeypatch.chdir(root)
    assert main(["port", "--steps", "1", "scripts/train.py"]) == 0
    apply, again = commands("jumar-port")
    assert run_as_printed(apply).returncode == 0
    assert '"npu"' in module.read_text()
    assert run_as_printed(again).returncode == 0


CPU_SCRIPTS = {
    "switched-off": ("use_cuda = False\n", []),
    "argument": ("import sys\nuse_cuda = '--cpu' not in sys.argv and torch.cuda.is_available()\n", ["--cpu"]),
    "falls-back": (
        "try:\n    torch.zeros(1, device='xpu')\n    use_cuda = True\nexcept Exception:\n    use_cuda = False\n",
        [],
    ),
    "only-a-probe": ("torch.zeros(3).cuda().sum()\nuse_cuda = False\n", []),
    "only-another-module": (
        "torch.nn.Linear(2, 2).cuda()(torch.ones(1, 2).cuda())\nuse_cuda = False\n",
        [],
    ),
    "asks-for-the-type": ("use_cuda = torch.zeros(1).cuda().device.type == 'cu' + 'da'\n", []),
}


@pytest.mark.parametrize("kind", CPU_SCRIPTS)
def test_a_script_that_trains_on_the_cpu_is_not_fine(kind: str, project: Path) -> None:
    choice, arguments = CPU_SCRIPTS[kind]
    net = textwrap.dedent(NET).replace("torch.cuda.is_available()", "use_cuda").removeprefix("import torch\n")
    Path("train.py").write_text(f"import torch\n{choice}{net}{textwrap.dedent(TRAIN)}")
    assert main(["port", "--steps", "2", "train.py", *(["--", *arguments] if arguments else [])]) == 1
    verdict = page("jumar-port")["verdict"]
    assert verdict["status"] == "failed", verdict
    assert "did not run on the NPU" in verdict["headline"]
    assert commands("jumar-port") == []


def test_a_script_that_only_evaluates_is_not_said_to_train(project: Path) -> None:
    Path("evaluate.py").write_text(
        "import torch\nnet = torch.nn.Linear(4, 4).cuda()\n"
        "with torch.no_grad():\n    for _ in range(3):\n        net(torch.ones(2, 4).cuda())\n"
    )
    assert main(["port", "--steps", "2", "evaluate.py"]) == 0
    verdict = page("jumar-port")["verdict"]
    assert verdict["status"] == "attention", verdict
    assert "no training was compared" in verdict["headline"]


def test_a_place_that_the_conversion_deals_with_is_told_once_also_below_the_top_of_a_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DataParallel is left by the conversion and lacks on the NPU: one finding, wherever the paths begin."""
    script = (
        "import torch\nfrom torch import nn\n\nnet = nn.Linear(8, 4).cuda()\n"
        "if torch.cuda.device_count() > 99:\n    net = nn.DataParallel(net)\n"
    )
    training = (
        textwrap.dedent(TRAIN).replace("net = Net().to(device())\n", "").replace("device=device()", "device='cuda'")
    )
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "train.py").write_text(script + training)
    subprocess.run(["git", "init", "-q", "."], cwd=tmp_path, check=True)
    monkeypatch.chdir(tmp_path)
    main(["port", "--steps", "2", "deep/train.py"])
    findings = json.loads((tmp_path / "jumar-port" / "findings.json").read_text())["findings"]
    at_line = [one["code"] for one in findings if one["where"].get("line") == 6]
    assert at_line == ["JM113"]
