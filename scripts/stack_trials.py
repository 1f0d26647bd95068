"""Train small models of the stacks people use on the emulated NPU, and write the table of `docs/stacks.md`.

    python scripts/stack_trials.py PYTHON [NAME ...]

PYTHON is the interpreter of an environment that has Jumar and the libraries (transformers, accelerate, peft, lightning,
diffusers, timm, sentence-transformers with datasets); a trial whose library it lacks is left out. Each script of
`examples/stacks` is run three times: with the CPU's device in place of CUDA's, converted under
`jumar run --numerics exact`, and as it is by `jumar port`. Given names, only those rows are run anew; the table keeps
the others.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from jumar.base.files import write_text
from jumar.convert import ConvertOptions, convert_files

ROOT = Path(__file__).parent.parent
SCRIPTS = ROOT / "examples" / "stacks"
PAGE = ROOT / "docs" / "stacks.md"
HEAD = "| script | stack | version | NPU code under `jumar run` | CUDA script by `jumar port` |\n|---|---|---|---|---|"
BEGIN, END = "<!-- trials -->", "<!-- end of trials -->"
LAUNCHER = ("python", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
SECONDS = 300
_LOSS = re.compile(r"^loss (\S+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Stack:
    """One script of `examples/stacks`."""

    script: str
    name: str
    library: str = "torch"
    ranks: int = 1
    variables: Mapping[str, str] = field(default_factory=dict)
    """Environment variables that its port needs."""


STACKS = (
    Stack("trainer", "transformers, Trainer", "transformers", variables={"CUDA_VISIBLE_DEVICES": "0"}),
    Stack("sentences", "sentence-transformers", "sentence-transformers", variables={"CUDA_VISIBLE_DEVICES": "0"}),
    Stack("accelerated", "accelerate", "accelerate"),
    Stack("lora", "peft, LoRA", "peft"),
    Stack("lightning_fit", "Lightning", "lightning"),
    Stack("fabric", "Lightning Fabric, bfloat16", "lightning"),
    Stack("images", "timm, Mixup and schedule", "timm"),
    Stack("classification", "training as torchvision's reference"),
    Stack("unet", "diffusers, UNet2DModel", "diffusers"),
    Stack("ppo", "PPO as cleanrl"),
    Stack("graphs", "graph network, scatter and gather"),
    Stack("sharded", "FSDP2", ranks=2),
    Stack("tensor_parallel", "tensor parallelism", ranks=2),
    Stack("compiled", "torch.compile: eager, aot_eager"),
)


@dataclass(frozen=True, slots=True)
class Run:
    """What one run printed."""

    losses: tuple[float, ...]
    failure: str = ""
    """The last line of the error, empty for a run that ended well."""


def text_for(script: str, device: str) -> str:
    """Return the text of a script for another device: as the conversion writes it for the NPU."""
    path = SCRIPTS / f"{script}.py"
    if device == "npu":
        return convert_files(SCRIPTS, [path], ConvertOptions()).files[0].after.decode()
    text = path.read_text().replace("nccl", "gloo").replace("cuda", device)
    return re.sub(r"^.*torch\.cpu\.set_device\(.*\n", "", text, flags=re.MULTILINE)


def execute(
    command: Sequence[str], folder: Path, variables: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command of the environment in a folder."""
    environment = {**os.environ, "PATH": f"{Path(command[0]).parent}{os.pathsep}{os.environ['PATH']}"}
    environment |= variables or {}
    try:
        return subprocess.run(
            command, cwd=folder, capture_output=True, text=True, check=False, timeout=SECONDS, env=environment
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 1, "", f"took longer than {SECONDS} s")


def run(python: str, stack: Stack, device: str, folder: Path) -> Run:
    """Run a script on the CPU by itself, or on the NPU under `jumar run`."""
    path = folder / f"{stack.script}.py"
    path.write_text(text_for(stack.script, device))
    launcher = (python, *LAUNCHER[1:]) if stack.ranks > 1 else ()
    if device == "cpu":
        done = execute([*(launcher or (python,)), path.name], folder)
    else:
        started = (*LAUNCHER, path.name) if launcher else (path.name,)
        done = execute([python, "-m", "jumar", "run", "--numerics", "exact", *started], folder)
    return Run(tuple(map(float, _LOSS.findall(done.stdout))), _failure(done))


def _failure(done: subprocess.CompletedProcess[str]) -> str:
    if done.returncode == 0:
        return ""
    errors = [line for line in done.stderr.splitlines() if re.match(r"[\w.]*(Error|Exception)\b", line)]
    lines = errors or done.stderr.splitlines() or [f"exit code {done.returncode}"]
    return lines[0].strip()[:200]


def port(python: str, stack: Stack, folder: Path) -> str:
    """Port the script as it is, and return what the port says."""
    path = folder / f"{stack.script}.py"
    shutil.copy(SCRIPTS / path.name, path)
    started = (*LAUNCHER, path.name) if stack.ranks > 1 else (path.name,)
    command = [python, "-m", "jumar", "port", "--json", "--force", "-o", "ported", "--steps", "2", *started]
    done = execute(command, folder, stack.variables)
    try:
        found = json.loads(done.stdout)
    except ValueError:
        return f"fails: {_failure(done) or 'no result'}"
    verdict = found["page"]["verdict"]
    said = "".join(f"with `{name}={value}` " for name, value in stack.variables.items())
    return f"{said}{verdict['status']}: {verdict['headline'].removeprefix(f'{path.name} ')}"


def compared(reference: Run, found: Run) -> str:
    """Say how the losses of the NPU relate to the CPU's."""
    if found.failure or reference.failure:
        side = "the NPU" if found.failure else "the CPU"
        return f"fails on {side}: {found.failure or reference.failure}"
    if not found.losses or len(found.losses) != len(reference.losses):
        return f"{len(found.losses)} losses, {len(reference.losses)} on the CPU"
    gap = max(abs(a - b) for a, b in zip(found.losses, reference.losses, strict=True))
    return f"{len(found.losses)} losses, all equal" if gap == 0 else f"{len(found.losses)} losses, within {gap:.1e}"


def version(python: str, library: str) -> str:
    """Return the version of a library in the environment, empty where it is missing."""
    code = f"from importlib.metadata import version; print(version({library!r}))"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    return done.stdout.strip()


def row(python: str, stack: Stack) -> str | None:
    """Run one trial and return its row; None where the library is missing."""
    found = version(python, stack.library)
    if not found:
        return None
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        reference, npu = (run(python, stack, device, folder) for device in ("cpu", "npu"))
        cells = [f"`{stack.script}.py`", stack.name, f"{stack.library} {found}", compared(reference, npu)]
        cells.append(port(python, stack, folder))
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"


def rows_of(page: str) -> dict[str, str]:
    """Return the rows of the page's table by their script."""
    table = page.partition(BEGIN)[2].partition(END)[0]
    return {line.split("`")[1].removesuffix(".py"): line for line in table.splitlines() if line.startswith("| `")}


def main() -> None:
    """Run the trials and write their rows into the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("python")
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    page = PAGE.read_text()
    rows = rows_of(page)
    for stack in STACKS:
        if arguments.names and stack.script not in arguments.names:
            continue
        made = row(arguments.python, stack)
        sys.stdout.write(f"{made or f'{stack.script}: left out, {stack.library} is missing'}\n")
        sys.stdout.flush()
        if made:
            rows[stack.script] = made
            before, after = page.partition(BEGIN)[0], page.partition(END)[2]
            table = "\n".join(rows[known.script] for known in STACKS if known.script in rows)
            head = (
                "| script | stack | version | NPU code under `jumar run` | CUDA script by `jumar port` |\n" + "|---" * 5
            )
            page = f"{before}{BEGIN}\n{head}|\n{table}\n{END}{after}"
            write_text(PAGE, page)


if __name__ == "__main__":
    main()
