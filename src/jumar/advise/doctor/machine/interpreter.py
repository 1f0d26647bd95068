"""Ask a fresh interpreter which packages it can import.

It runs in a child process, because a vendor package that was built for another compiler crashes instead of raising.
"""

from __future__ import annotations

import json
import os
import platform
import signal
import subprocess
from collections.abc import Callable, Mapping
from typing import Any

from jumar.advise.doctor.machine.host import Package, Python
from jumar.base.process import children

TIMEOUT_S = 180
"""The first import of torch from a cold network disk can take minutes."""

_QUESTION = """
import importlib, importlib.util, json, sys
answer = {}
for name in ("torch", "torch_npu"):
    if importlib.util.find_spec(name) is None:
        continue
    answer[name] = {"version": "", "error": None}
    print(json.dumps(answer), flush=True)
    try:
        module = importlib.import_module(name)
        answer[name]["version"] = str(getattr(module, "__version__", ""))
    except BaseException as error:
        answer[name]["error"] = f"{type(error).__name__}: {error}"
if answer.get("torch_npu", {}).get("error", "") is None:
    import torch
    try:
        answer["num_npus"] = int(torch.npu.device_count())
    except BaseException as error:
        answer["torch_npu"]["error"] = f"{type(error).__name__}: {error}"
print(json.dumps(answer), flush=True)
"""
"""It prints the answer before each import too, so the package is known even when its import crashes."""

Run = Callable[..., "subprocess.CompletedProcess[str]"]


def ask_interpreter(environ: Mapping[str, str], *, run: Run = subprocess.run) -> Python:
    """Return which packages the interpreter that runs Jumar can import under `environ`; `run` starts the process.

    Jumar's own variables are left out. Otherwise the emulated `torch_npu` would answer for the vendor's package.
    """
    clean = {name: value for name, value in environ.items() if not name.startswith("JUMAR_")}
    if clean.get("PYTHONPATH"):
        clean["PYTHONPATH"] = os.pathsep.join(children.trusted(clean["PYTHONPATH"].split(os.pathsep)))
    try:
        command = children.command(code=_QUESTION)
        done = run(command, env=clean, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        output, ending = done.stdout, _ending(done.returncode)
    except subprocess.TimeoutExpired as error:
        output = error.stdout.decode() if isinstance(error.stdout, bytes) else (error.stdout or "")
        ending = f"importing it did not end within {TIMEOUT_S} s"
    except OSError as error:
        output, ending = "", str(error)
    return _understand(_last_json(output), ending)


def _ending(code: int) -> str | None:
    if code == 0:
        return None
    if code < 0:
        return f"importing it killed the interpreter ({signal.Signals(-code).name})"
    return f"importing it ended the interpreter with code {code}"


def _last_json(output: str) -> dict[str, Any]:
    for line in reversed(output.splitlines()):
        try:
            answer = json.loads(line)
        except ValueError:
            continue
        if isinstance(answer, dict):
            return answer
    return {}


def _understand(answer: Mapping[str, Any], ending: str | None) -> Python:
    names = [name for name in ("torch", "torch_npu") if name in answer]
    packages = {
        name: Package(installed=True, version=answer[name]["version"], error=answer[name]["error"]) for name in names
    }
    if ending is not None and not names:
        packages["torch"] = Package(error=ending)
    elif ending is not None:
        last = names[-1]
        packages[last] = Package(installed=True, version=packages[last].version, error=ending)
    return Python(
        version=platform.python_version(),
        torch=packages.get("torch", Package()),
        torch_npu=packages.get("torch_npu", Package()),
        num_npus=answer.get("num_npus"),
    )
