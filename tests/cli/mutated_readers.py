"""A process that damages files and reads them: `python mutated_readers.py NAME FOLDER SEEDS MEMORY_BYTES`.

It prints one JSON object: what a damage did besides a right result or one sentence, by its seed. The process has a
limit on its memory, and notes every file outside of the folder that is opened for writing.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import resource
import shutil
import signal
import sys
import time
import traceback
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "recording")]
# Threads of libraries reserve address space each.
os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

from mutations import document, mutated  # noqa: E402 - only now on the path

LONGEST_S = 20
"""Of the processor, for one damaged file; all good ones are read in less than two."""

LINES = ["import torch\n", "x.cuda()"]
NOTEBOOK = {
    "cells": [
        {"cell_type": "code", "execution_count": 1, "metadata": {}, "outputs": [], "source": LINES},
        {"cell_type": "markdown", "metadata": {}, "source": "`x.cuda()`"},
    ],
    "metadata": {"kernelspec": {"name": "python3"}}, "nbformat": 4, "nbformat_minor": 5,
}  # fmt: skip
SOURCE = "import torch\n\n\ndef f(x):\n    if x.is_cuda:\n        return x.cuda()\n    return x\n"
SHELL = "export NCCL_DEBUG=INFO\nCUDA_VISIBLE_DEVICES=0,1 torchrun --nproc_per_node=2 train.py --device cuda\n"
YAML = "device: cuda\ntrainer:\n  accelerator: gpu\n  devices: [0, 1]\nbackend: nccl\n"
LOG = (
    '[rank0]: Traceback (most recent call last):\n[rank0]:   File "train.py", line 3, in <module>\n'
    "[rank0]: RuntimeError: NPU out of memory. Tried to allocate 2.00 GiB\n"
    "[ERROR] HCCL(123,python):2024-08-08-16:35:00.123.456 [op.cc:1]EI0006: wait timeout\n"
)
PROFILE = 'name = "MyNpu"\nbase = "Ascend910B1"\nmemory_bytes = 1000000000\n'


def text(name: str, content: str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        (folder / name).write_text(content, "utf-8")
        return folder / name

    return make


def recorded(file: str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        import foreign_samples

        foreign_samples.recording(folder / "recording")
        return folder / "recording" / file

    return make


def beside_a_recording(name: str, content: str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        recorded("run.json")(folder)
        return text(name, content)(folder)

    return make


def checkpoint(name: str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        import foreign_samples

        foreign_samples.checkpoint(folder / name)
        return folder / name

    return make


def artefact(folder: Path) -> Path:
    import torch

    from jumar.tune.artefact import write
    from jumar.tune.graph.capture.capture import graph_of_module
    from jumar.tune.plan import Plan, Region

    captured = graph_of_module(torch.nn.Linear(4, 4).eval(), (torch.randn(2, 4),), folder=folder, name="net")
    plan = Plan(regions=(Region(nodes=(), engine="eager", version=torch.__version__),))
    write(folder / "net.jumar", captured, plan)
    return folder / "net.jumar"


def exported(folder: Path) -> Path:
    import torch

    program = torch.export.export(torch.nn.Linear(4, 4).eval(), (torch.randn(2, 4),))
    torch.export.save(program, folder / "net.pt2")
    return folder / "net.pt2"


def onnx_file(folder: Path) -> Path:
    import torch

    torch.onnx.export(
        torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU()).eval(), (torch.randn(2, 4),), folder / "net.onnx",
        dynamo=True, verbose=False, external_data=False,
    )  # fmt: skip
    return folder / "net.onnx"


def bank_file(folder: Path) -> Path:
    import torch

    from jumar.tune.bank.store import Bank
    from jumar.tune.graph.capture.capture import graph_of_module
    from jumar.tune.model.gate import gain_of
    from jumar.tune.model.machine import this_machine
    from jumar.tune.plan import Plan, Region

    (folder / "bank").mkdir()
    bank = Bank.open(folder / "bank")
    graph = graph_of_module(torch.nn.Linear(4, 4).eval(), (torch.randn(2, 4),), folder=folder, name="net").graph
    plan = Plan(regions=(Region(nodes=(), engine="eager", version=torch.__version__),))
    bank.accept(
        graph, this_machine(), plan.policy(), incumbent=(), gain=gain_of([2.0] * 30, [1.0] * 30, 1), min_gain=0.02,
        tried=[],
    )  # fmt: skip
    bank.close()
    return next(path for path in (folder / "bank").iterdir() if path.suffix == ".sqlite3")


def bank_lines(folder: Path) -> Path:
    bank_file(folder)
    main(["bank", "export", "--bank", str(folder / "bank"), "--out", str(folder / "bank.json")])
    return folder / "bank.json"


def main(arguments: list[str]) -> int:
    from jumar.cli.main import main as command

    return int(command(arguments) or 0)


def load(arguments: list[str]) -> int:
    import jumar

    jumar.load(arguments[0], fallback=True)
    return 0


def program(arguments: list[str]) -> int:
    from jumar.tune.graph.capture.programs import load_program

    return len(load_program(Path(arguments[0]), [], Path(arguments[1]))) - 1


def onnx_model(arguments: list[str]) -> int:
    from jumar.tune.graph.from_onnx.load import load_onnx

    return len(load_onnx(Path(arguments[0]), [], Path(arguments[1]))) - 1


TO_TEXT = ["dump", "to-text", "-o", "{out}/new", "{folder}/recording"]
CONVERT = ["convert", "-i", "{file}", "-o", "{out}/new", "--no-cache"]
TUNE = ["tune", "{folder}/recording", "--job-type", "2", "--time-budget", "0.001s", "--bank", "{out}"]

READERS: dict[str, tuple[Callable[[Path], Path], Callable[[list[str]], int], list[str]]] = {
    "advise-run": (recorded("run.json"), main, ["advise", "{folder}/recording"]),
    "advise-step": (recorded("steps/step-000000-rank-0.parquet"), main, ["advise", "{folder}/recording"]),
    "assess-step": (recorded("steps/step-000000-rank-0.parquet"), main, ["assess", "{folder}/recording"]),
    "overflow-step": (recorded("steps/step-000000-rank-0.parquet"), main, ["overflow", "{folder}/recording"]),
    "replay-tensors": (recorded("tensors/step-000000-rank-0.h5"), main, ["replay", "{folder}/recording"]),
    "list-tensors": (recorded("tensors/step-000000-rank-0.h5"), main, TO_TEXT),
    "compare-end": (recorded("end-rank-0.json"), main, ["compare", "{folder}/recording", "{folder}/recording"]),
    "notebook": (text("a.ipynb", json.dumps(NOTEBOOK)), main, CONVERT),
    "python": (text("a.py", SOURCE), main, CONVERT),
    "shell": (text("a.sh", SHELL), main, CONVERT),
    "yaml": (text("a.yaml", YAML), main, CONVERT),
    "assess": (text("a.py", SOURCE), main, ["assess", "{file}"]),
    "log": (text("a.log", LOG), main, ["doctor", "{file}"]),
    "checkpoint": (checkpoint("a.pth"), main, ["export", "checkpoint", "{file}", "{out}/a.pt", "--force"]),
    "checkpoint-list": (checkpoint("a.pth"), main, ["dump", "list", "{file}"]),
    "artefact": (artefact, load, ["{file}"]),
    "bank": (bank_file, main, ["bank", "list", "--bank", "{folder}/bank"]),
    "bank-verify": (bank_file, main, ["bank", "verify", "--bank", "{folder}/bank"]),
    "bank-lines": (bank_lines, main, ["bank", "import", "{file}", "--bank", "{out}"]),
    "pt2": (exported, program, ["{file}", "{out}"]),
    "onnx": (onnx_file, onnx_model, ["{file}", "{out}"]),
    "aoe": (
        beside_a_recording("a.json", json.dumps({"tune_optimization_level": "O1", "tune_ops_type": []})), main,
        [*TUNE, "--aoe-config-file", "{file}"],
    ),
    "profile": (text("a.toml", PROFILE), main, ["assess", "{folder}/a.toml", "--soc", "{file}"]),
}  # fmt: skip
"""What makes a good file, what reads it, and with which arguments."""


def damaged(path: Path, seed: int) -> bytes:
    """Return the content of a file with one damage; of an artefact two times of three in a member, told in the rest."""
    return mutated(path, seed) if path.suffix != ".jumar" or seed % 3 == 0 else member_damaged(path, seed)


def member_damaged(path: Path, seed: int) -> bytes:
    from jumar.tune.artefact.manifest import GRAPH, MANIFEST
    from jumar.tune.artefact.members import checksum
    from jumar.tune.graph import Graph

    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = MANIFEST if seed % 2 else GRAPH
    members[name] = document(members[name], random.Random(seed))
    if name == GRAPH:
        manifest = json.loads(members[MANIFEST])
        manifest["checksums"][GRAPH] = checksum(members[GRAPH])
        with contextlib.suppress(Exception):
            manifest["key"] = Graph.from_json(json.loads(members[GRAPH])).key
        members[MANIFEST] = json.dumps(manifest).encode()
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return made.getvalue()


class TooLong(BaseException):
    """A damaged file took too long."""


def limited(memory_bytes: int) -> None:
    now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + memory_bytes, now + memory_bytes))

    def late(_number: int, _frame: Any) -> None:
        raise TooLong

    signal.signal(signal.SIGPROF, late)


def complaint(read: Callable[[list[str]], int], arguments: list[str], *, good: bool = False) -> str:
    """Return what is wrong with how a file was read; empty for a right result, or one sentence if it is damaged."""
    from jumar.base.errors import JumarError

    output, errors = io.StringIO(), io.StringIO()
    signal.setitimer(signal.ITIMER_PROF, LONGEST_S)
    try:
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
            code = read(arguments)
    except JumarError as error:
        return "" if "\n" not in str(error) and not good else f"more than a sentence: {error}"
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
    except TooLong:
        return f"it took more than {LONGEST_S} s: {traceback.format_exc(limit=-6)}"
    except BaseException as error:  # noqa: BLE001 - this is what the test looks for
        return f"{type(error).__name__}: {error}: {traceback.format_exc(limit=-3)}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    said = errors.getvalue()
    if code not in ({0, 1} if good else {0, 1, 2}) or "Traceback" in said:
        return f"exit code {code}: {said[-1500:]} {output.getvalue()[-300:]}"
    try:
        (output.getvalue() + said).encode("utf-8")
    except UnicodeEncodeError as error:
        return f"a terminal cannot show it: {error}"
    return ""


def run(name: str, folder: Path, seeds: list[int], memory_bytes: int) -> dict[str, Any]:
    make, read, arguments = READERS[name]
    path = make(folder)
    good = path.read_bytes()
    out = folder / "out"
    words = {"folder": str(folder), "file": str(path), "out": str(out)}
    filled = [part.format_map(words) for part in arguments]
    found: dict[str, Any] = {}
    out.mkdir()
    os.chdir(folder)
    if wrong := complaint(read, filled, good=True):
        return {"good": wrong}
    limited(memory_bytes)
    opened: list[str] = []
    allowed = (str(folder), "/dev/", "/proc/", os.environ.get("XDG_CACHE_HOME", "/nowhere"), os.environ["TMPDIR"])

    def note(event: str, given: tuple[Any, ...]) -> None:
        if event != "open" or not isinstance(given[0], str) or not isinstance(given[2], int):
            return
        is_outside = not given[0].startswith(allowed) and "__pycache__" not in given[0]
        if is_outside and given[2] & (os.O_WRONLY | os.O_RDWR):
            opened.append(given[0])

    sys.addaudithook(note)
    slowest = 0.0
    for seed in seeds:
        path.write_bytes(good)
        content = damaged(path, seed)
        for extra in path.parent.glob(path.name + "-*"):
            extra.unlink()
        path.unlink()
        path.write_bytes(content)
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir()
        began = time.process_time()
        wrong = complaint(read, filled)
        slowest = max(slowest, time.process_time() - began)
        if opened:
            wrong, opened[:] = f"{wrong} it wrote to {opened}", []
        if wrong:
            found[str(seed)] = wrong
    return found | {"slowest": slowest}


if __name__ == "__main__":
    answer = run(sys.argv[1], Path(sys.argv[2]), [*range(int(sys.argv[3]))], int(sys.argv[4]))
    sys.__stdout__.write("\n" + json.dumps(answer))
