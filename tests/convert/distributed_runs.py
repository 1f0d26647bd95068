"""Converts scripts for several devices and runs them on the emulated NPU, alone or with ranks."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from jumar.base.findings import Finding
from jumar.convert import ConvertOptions, Success, convert_source
from jumar.convert.engine.launch import FILE_NAME, script
from jumar.convert.model.options import Distributed, Target
from jumar.device import DevicePlan

SCRIPTS = Path(__file__).parents[1] / "fixtures" / "distributed"
BESIDE = ("figures.py", "progress.py")
TIMEOUT_S = 240


@dataclass(frozen=True)
class Project:
    """A converted script in a folder of its own, with its launch script."""

    folder: Path
    main: str
    findings: tuple[Finding, ...]

    def run(self, *arguments: str, ranks: int = 0, where: str = "work", **environment: str) -> str:
        """Run it (0 ranks: `python main.py`) in a sub-folder and return what it printed; fails with it."""
        work = self.folder / where
        work.mkdir(exist_ok=True)
        command = [sys.executable, str(self.folder / self.main)] if not ranks else launcher(self.folder, ranks)
        done = subprocess.run(
            [*command, *arguments], cwd=work, env=emulated(**environment), capture_output=True, text=True,
            timeout=TIMEOUT_S, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


def launcher(folder: Path, ranks: int) -> list[str]:
    return ["bash", str(folder / FILE_NAME), "-n", str(ranks)]


def emulated(**environment: str) -> dict[str, str]:
    plan = DevicePlan(kind="npu", real="never", num_devices=4, numerics="exact")
    variables = {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore", "PYTHON": sys.executable}
    return {**os.environ, **variables, **plan.to_environment(), **environment}


def convert(source: str, model: str = "model", *, target: Target = "npu", name: str = "a.py") -> Success:
    options = ConvertOptions(target=target, distributed=Distributed(main=name, model=model))
    found = convert_source(source, name, options)
    assert isinstance(found, Success), found
    return found


def project(folder: Path, main: str, model: str, *, target: Target = "npu") -> Project:
    """Write the converted script, what it imports, and the launch script under `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    found = convert((SCRIPTS / main).read_text(), model, target=target, name=main)
    (folder / main).write_bytes(found.after)
    for name in BESIDE:
        shutil.copy(SCRIPTS / name, folder)
    options = ConvertOptions(target=target, distributed=Distributed(main=main, model=model))
    (folder / FILE_NAME).write_bytes(script(main, options))
    return Project(folder, main, found.findings)
