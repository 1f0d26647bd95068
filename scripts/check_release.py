"""Build the sdist and the wheel, look into both, install the wheel in a clean environment and use it.

    pip install '.[release]' && python scripts/check_release.py

The clean environment takes the dependencies of this one (it has their folder on its path), so that nothing is
downloaded. Nothing of the checkout is on its path.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import venv
import zipfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = """\
import torch

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(2):
    loss = model(torch.randn(4, 8).cuda()).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"loss {loss.item():.4f}")
"""
SMOKE: tuple[tuple[tuple[int, ...], Sequence[str]], ...] = (
    ((0,), ["--version"]),
    ((0,), ["--help"]),
    ((0,), ["docs"]),
    ((0,), ["docs", "port"]),
    ((0,), ["rule", "JM101"]),
    ((0, 1), ["doctor", "--json"]),
    ((0,), ["port", "--steps", "2", "train.py"]),
    ((0,), ["run", "jumar-port/converted/train.py"]),
    ((0, 1), ["doctor", "train.log"]),
)
"""Exit codes that are right, and the words behind `jumar`."""


def main() -> int:
    """Run every step; the first that fails ends it with its output."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        say("build the sdist, and the wheel from it")
        run([sys.executable, "-m", "build", "--no-isolation", "--outdir", str(place / "dist"), str(ROOT)])
        sdist, wheel = next((place / "dist").glob("*.tar.gz")), next((place / "dist").glob("*.whl"))
        check_contents(sdist, wheel)
        check_smoke(wheel, place)
    say("the release is whole")
    return 0


def check_contents(sdist: Path, wheel: Path) -> None:
    """Compare both archives with the files that git has. Raises SystemExit for what is missing or does not belong."""
    say("compare their contents with the checkout")
    tracked = run(["git", "-C", str(ROOT), "ls-files", "src/jumar"]).split()
    package = {name.removeprefix("src/") for name in tracked if "/__pycache__/" not in name}
    with zipfile.ZipFile(wheel) as archive:
        have = set(archive.namelist())
    lacking = sorted(name for name in package - have if not name.endswith(".po"))
    guides = {f"jumar/guides/{file.name}" for file in (ROOT / "docs").glob("*.md")} - have
    foreign = sorted(name for name in have if not name.startswith(("jumar/", "jumar-")))
    if lacking or guides or foreign:
        raise SystemExit(f"the wheel lacks {lacking + sorted(guides)} and should not have {foreign}")
    with tarfile.open(sdist) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {"pyproject.toml", "setup.py", "README.md", "LICENSE", "CHANGELOG.md", "constraints.txt", "mkdocs.yml"}
    if missing := sorted(wanted - inside):
        raise SystemExit(f"the sdist lacks {missing}")


def check_smoke(wheel: Path, place: Path) -> None:
    """Install the wheel in a clean environment, and do the main jobs far from the checkout."""
    say("install the wheel in a clean environment")
    target, work = place / "clean", place / "work"
    venv.create(target, with_pip=False, symlinks=True)
    python = target / "bin" / "python"
    site = Path(run([str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]).strip())
    run([sys.executable, "-m", "pip", "--python", str(python), "install", "-q", "--no-deps", str(wheel)])
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    work.mkdir()
    (work / "train.py").write_text(SCRIPT, encoding="utf-8")
    (work / "train.log").write_text("EI0002: The wait execution of the Notify register times out.\n", encoding="utf-8")
    where = run([str(python), "-c", "import jumar; print(jumar.__file__)"], cwd=work).strip()
    if not where.startswith(str(site)):
        raise SystemExit(f"the clean environment imports {where}")
    for right, words in SMOKE:
        say(f"jumar {' '.join(words)}")
        run([str(target / "bin" / "jumar"), *words], cwd=work, right=right)


def run(command: Sequence[str], *, cwd: Path | None = None, right: Sequence[int] = (0,)) -> str:
    """Run a command and return its output. Raises SystemExit where its exit code is none of the right ones."""
    environment = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "VIRTUAL_ENV"}}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    if done.returncode not in right:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def say(what: str) -> None:
    """Tell what is done now."""
    sys.stdout.write(f"release: {what}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
