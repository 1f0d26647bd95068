"""A recorded operator becomes a folder that runs without Jumar and shows its error."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from fault_models import Fault
from torch.nn import functional

import jumar
from jumar.base.errors import InputError, OutputError, UsageError
from jumar.cli.main import main
from jumar.comparison.repro import write_repro

RUFF = str(Path(sys.executable).with_name("ruff"))
NO_JUMAR = (
    "import sys, runpy\n"
    "class Hidden:\n"
    "    def find_spec(self, name, path=None, target=None):\n"
    "        if name.partition('.')[0] in ('jumar', 'torch_npu'):\n"
    "            raise ModuleNotFoundError(name)\n"
    "sys.meta_path.insert(0, Hidden())\n"
    "import importlib.util\n"
    "find = importlib.util.find_spec\n"
    "importlib.util.find_spec = lambda n, p=None: None if n in ('jumar', 'torch_npu') else find(n, p)\n"
    "sys.argv = sys.argv[1:]\n"
    "runpy.run_path(sys.argv[0], run_name='__main__')\n"
)
"""Runs a script as on a machine without Jumar."""


def recorded(path: Path, program: Callable[[], Any], fault: Fault | None = None) -> Path:
    torch.manual_seed(0)
    with fault or nullcontext(), jumar.record(path, values="tensors"):
        program()
    return path


def run_hidden(folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the script in a process that has no Jumar."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("JUMAR_")}
    environment["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    command = [sys.executable, "-c", NO_JUMAR, str(folder / "repro.py")]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


class Ran(NamedTuple):
    returncode: int
    stdout: str


def loaded(folder: Path) -> dict[str, Any]:
    """Return the names of the script, run in this process but for its main part."""
    namespace: dict[str, Any] = {"__file__": str(folder / "repro.py"), "__name__": "repro"}
    exec(compile((folder / "repro.py").read_text("utf-8"), "repro.py", "exec"), namespace)
    return namespace


def run(folder: Path, *devices: str) -> Ran:
    """Run the script on these devices in this process."""
    output = io.StringIO()
    arguments = ["repro.py", *(word for device in devices or ("cpu",) for word in ("--device", device))]
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(output):
        patch.setattr(sys, "argv", arguments)
        code = loaded(folder)["main"]()
    return Ran(code, output.getvalue())


def is_clean(folder: Path) -> bool:
    check = subprocess.run([RUFF, "check", "--isolated", str(folder)], capture_output=True, text=True, check=False)
    formatted = [RUFF, "format", "--isolated", "--line-length", "120", "--check", str(folder)]
    shaped = subprocess.run(formatted, capture_output=True, text=True, check=False)
    assert check.returncode == 0, check.stdout
    assert shaped.returncode == 0, shaped.stdout
    return True


def wrong_gelu(func: Any, args: Any, kwargs: Any) -> torch.Tensor:
    return func(*args, approximate="tanh")


def chain() -> None:
    x, weight = torch.randn(16, 8), torch.randn(8, 8)
    functional.gelu(functional.layer_norm(x @ weight, (8,))).bfloat16().sum()


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recorded(tmp_path_factory.mktemp("faulty") / "recording", chain, Fault("aten::gelu", wrong_gelu))


def test_the_first_fault_becomes_a_folder_that_runs_without_jumar(faulty: Path, tmp_path: Path) -> None:
    written = write_repro(faulty, "first", tmp_path / "case")
    assert written.title.startswith("aten::gelu")
    assert sorted(path.name for path in written.path.iterdir()) == [
        "README.md",
        "repro.py",
        "tensors.npz",
        "test_repro.py",
    ]
    assert is_clean(written.path)
    result = run_hidden(written.path)
    assert result.returncode == 0, result.stderr  # the CPU here is right; only the recorded output is off
    lines = [line.split() for line in result.stdout.splitlines()[2:]]
    multiples = {line[0]: float(line[-1]) for line in lines}
    assert multiples["recorded"] > 50
    assert multiples["cpu"] < 1
    text = (written.path / "README.md").read_text("utf-8")
    assert "is off by" in text
    assert "torch.ops.aten.gelu.default" in text


@pytest.mark.slow
def test_its_pytest_passes_on_a_right_device_and_fails_without_tolerance(faulty: Path, tmp_path: Path) -> None:
    folder = write_repro(faulty, "first", tmp_path / "case").path
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:jumar", str(folder)]
    passed = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    assert passed.returncode == 0, passed.stdout
    script = folder / "repro.py"
    source = script.read_text("utf-8")
    script.write_text(source + "\n\nTOLERANCE = dict.fromkeys(TOLERANCE, 0.0)\n", "utf-8")
    failed = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    assert failed.returncode == 1, failed.stdout


def test_the_emulated_npu_reproduces_its_own_rounding(tmp_path: Path) -> None:
    with jumar.emulate("Ascend910A"):
        path = recorded(tmp_path / "recording", lambda: torch.randn(8, 16).npu() @ torch.randn(16, 8).npu())
    _say_soc(path, "Ascend910A")
    folder = write_repro(path, "aten::mm", tmp_path / "case").path
    result = run(folder, "cpu", "npu")
    assert result.returncode == 1
    multiples = {line.split()[0]: float(line.split()[-1]) for line in result.stdout.splitlines()[2:]}
    assert multiples["cpu"] < 1
    assert multiples["npu"] == multiples["recorded"] > 50


def _say_soc(path: Path, soc: str) -> None:
    info = json.loads((path / "run.json").read_text("utf-8"))
    (path / "run.json").write_text(json.dumps({**info, "soc": soc, "device": "npu (emulated)"}), "utf-8")


def test_context_takes_in_the_operators_before(faulty: Path, tmp_path: Path) -> None:
    folder = write_repro(faulty, "aten::sum", tmp_path / "case", context=3).path
    assert is_clean(folder)
    source = (folder / "repro.py").read_text("utf-8")
    order = [source.index(f"torch.ops.aten.{name}") for name in ("native_layer_norm", "gelu", "_to_copy", "sum")]
    assert order == sorted(order)
    with np.load(folder / "tensors.npz") as file:
        assert set(file) == {"0.input", "recorded.3.output.0"}
    assert run(folder).returncode == 0


def test_more_context_than_was_recorded_is_said(faulty: Path, tmp_path: Path) -> None:
    written = write_repro(faulty, "aten::mm", tmp_path / "case", context=5)
    assert len(written.notes) == 1
    assert written.notes[0].startswith("5 of 5 operators before it could not be taken in")  # randn made its inputs


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float8_e4m3fn])
def test_narrow_dtypes_are_kept_bit_for_bit(tmp_path: Path, dtype: torch.dtype) -> None:
    x = torch.randn(32).to(dtype)
    path = recorded(tmp_path / "recording", lambda: x.to(torch.float32).sum())
    folder = write_repro(path, "aten::_to_copy", tmp_path / "case").path
    result = run(folder)
    assert result.returncode == 0
    assert "nan" not in result.stdout
    assert [line.split()[-1] for line in result.stdout.splitlines()[2:]] == ["0", "0"]


PROGRAMS: dict[str, tuple[str, Callable[[], Any]]] = {
    "in place": ("aten::add_.Tensor", lambda: torch.ones(4).add_(torch.arange(4.0), alpha=2)),
    "lists": ("aten::_foreach_mul_.Scalar", lambda: torch._foreach_mul_([torch.ones(2), torch.ones(3)], 3.0)),
    "a list to concatenate": ("aten::cat", lambda: torch.cat([torch.ones(2), torch.zeros(3)], 0)),
    "an index with a gap": ("aten::index.Tensor", lambda: torch.arange(12.0).view(3, 4)[:, torch.tensor([0, 2])]),
    "out": ("aten::add.out", lambda: torch.add(torch.ones(3), torch.ones(3), out=torch.empty(3))),
    "strings and dtypes": ("aten::div.Tensor_mode", lambda: torch.div(torch.ones(3), 2.0, rounding_mode="floor")),
    "a cast": ("aten::_to_copy", lambda: torch.randn(4).to(torch.float16)),
    "a softmax of halves": ("aten::_softmax", lambda: torch.randn(4, 4).half().softmax(-1, dtype=torch.float32)),
    "infinities": ("aten::masked_fill.Scalar", lambda: torch.ones(4).masked_fill(torch.ones(4) > 0, float("-inf"))),
    "a factory": ("aten::full", lambda: torch.full((3,), 0.1)),
    "expanded memory": ("aten::mul.Tensor", lambda: torch.randn(3, 1).expand(3, 4) * torch.randn(4)),
    "a convolution's gradient": (
        "aten::convolution_backward",
        lambda: (
            functional.conv2d(torch.randn(1, 2, 5, 5), torch.randn(3, 2, 3, 3, requires_grad=True)).sum().backward()
        ),
    ),
    "a mask that was drawn": ("aten::native_dropout", lambda: torch.native_dropout(torch.ones(8), 0.5, True)),
}


@pytest.mark.parametrize("kind", PROGRAMS)
def test_calls_of_every_form_run_alone(kind: str, tmp_path: Path) -> None:
    name, program = PROGRAMS[kind]
    folder = write_repro(recorded(tmp_path / "recording", program), name, tmp_path / "case").path
    assert is_clean(folder)
    namespace = loaded(folder)
    assert namespace["errors"]("recorded").keys() == namespace["OUTPUTS"].keys()
    for where in ("recorded", "cpu"):
        for output, error in namespace["errors"](where).items():
            assert error <= namespace["TOLERANCE"][output], (where, output)


def test_the_source_of_a_substitute_is_written_along(tmp_path: Path) -> None:
    from dataclasses import replace

    from jumar.comparison.repro.build import build
    from jumar.comparison.repro.script import script_source
    from jumar.recording import Recording

    path = recorded(tmp_path / "recording", lambda: functional.conv2d(torch.randn(1, 2, 5, 5), torch.randn(3, 2, 3, 3)))
    recording = Recording.open(path)
    row = next(row for row in recording.rows(0) if row.name == "aten::convolution")
    tensors = recording.tensors(row)
    recording.tensors = lambda _: tensors  # type: ignore[method-assign]
    case = build(recording, replace(row, name="aten::convolution_overrideable"))
    source = script_source(case)
    assert "def convolution(**a):" in source
    assert 'torch.device(device).type == "cpu"' in source
    assert case.own.worst is not None
    assert case.own.worst.excess < 1


def big(fault_at: int) -> tuple[Callable[[], Any], Fault]:
    x = torch.randn(512, 600)

    def change(func: Any, args: Any, kwargs: Any) -> torch.Tensor:
        result = func(*args, **kwargs)
        result[fault_at] *= 1.01
        return result

    return lambda: functional.softmax(x, -1), Fault("aten::_softmax", change)


@pytest.mark.parametrize("at", [0, 300, 511])
def test_big_tensors_are_sliced_where_the_error_is(at: int, tmp_path: Path) -> None:
    written = write_repro(recorded(tmp_path / "recording", *big(at)), "aten::_softmax", tmp_path / "case")
    assert written.size_bytes < 1 << 20
    assert written.error is not None
    assert written.tolerance is not None
    assert written.error > written.tolerance
    assert any("slices" in note for note in written.notes)
    result = run(written.path)
    assert result.returncode == 0
    assert float(result.stdout.splitlines()[2].split()[-1]) > 100


def test_a_product_is_sliced_along_its_rows_and_columns(tmp_path: Path) -> None:
    a, b = torch.randn(256, 64), torch.randn(64, 256)

    def change(func: Any, args: Any, kwargs: Any) -> torch.Tensor:
        result = func(*args, **kwargs)
        result[200, 3] += 1
        return result

    path = recorded(tmp_path / "recording", lambda: a @ b, Fault("aten::mm", change))
    written = write_repro(path, "aten::mm", tmp_path / "case", max_bytes=20_000)
    assert written.size_bytes < 25_000  # the archive has its own headers
    with np.load(written.path / "tensors.npz") as file:
        rows, columns = file["self"].shape[0], file["mat2"].shape[1]
    assert rows < 256
    assert columns < 256
    assert written.error is not None
    assert written.error > 0.01


def test_a_sum_is_measured_anew_on_the_device(tmp_path: Path) -> None:
    with jumar.emulate("Ascend910A"):
        path = recorded(tmp_path / "recording", lambda: torch.randn(8, 4096).npu() @ torch.randn(4096, 8).npu())
    _say_soc(path, "Ascend910A")
    written = write_repro(path, "aten::mm", tmp_path / "case", max_bytes=10_000)
    assert written.size_bytes < 15_000
    assert any("calculated anew" in note for note in written.notes)
    assert run(written.path, "npu").returncode == 1


def test_an_operator_is_named_by_module_and_name_and_the_worst_is_taken(tmp_path: Path) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4))
    path = recorded(tmp_path / "recording", lambda: model(torch.randn(3, 4)))
    named = write_repro(path, "1 aten::addmm", tmp_path / "named")
    assert "aten::addmm of 1 (Linear)" in named.title
    worst = write_repro(path, "aten::addmm", tmp_path / "worst")
    assert worst.chosen == "of 2 calls that match aten::addmm, the one with the greatest error of its own"


def test_the_first_divergence_from_a_reference(faulty: Path, tmp_path: Path) -> None:
    reference = recorded(tmp_path / "reference", chain)
    written = write_repro(faulty, "first", tmp_path / "case", against=reference)
    assert written.title.startswith("aten::gelu")
    assert written.chosen == f"the first divergence from {reference}"
    with pytest.raises(UsageError, match="names no operator"):
        write_repro(reference, "first", tmp_path / "none", against=reference)


def test_what_is_there_is_not_overwritten(faulty: Path, tmp_path: Path) -> None:
    write_repro(faulty, "first", tmp_path / "case")
    with pytest.raises(OutputError, match="already holds a case"):
        write_repro(faulty, "first", tmp_path / "case")
    write_repro(faulty, "first", tmp_path / "case", force=True)
    (tmp_path / "case" / "mine.txt").write_text("kept", "utf-8")
    with pytest.raises(OutputError, match="not a case"):
        write_repro(faulty, "first", tmp_path / "case", force=True)
    assert (tmp_path / "case" / "mine.txt").read_text("utf-8") == "kept"


def test_what_cannot_be_replayed_cannot_be_written(tmp_path: Path) -> None:
    path = recorded(tmp_path / "recording", lambda: torch.rand(3))
    with pytest.raises(InputError, match="cannot be executed outside of its run: aten::rand draws random numbers"):
        write_repro(path, "aten::rand", tmp_path / "case")
    assert not (tmp_path / "case").exists()


def test_a_full_disk_leaves_nothing_behind(faulty: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("jumar.comparison.repro.write.write", full)
    with pytest.raises(OutputError, match="No space left on device"):
        write_repro(faulty, "first", tmp_path / "case")
    assert list(tmp_path.iterdir()) == []


def test_the_command_says_what_it_wrote(faulty: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["repro", str(faulty), "first", "-o", str(tmp_path / "case")]) == 0
    assert capsys.readouterr().out.startswith("aten::gelu of no module")
    assert main(["repro", str(faulty), "first", "-o", str(tmp_path / "other"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["size_bytes"] > 0
    assert main(["repro", str(faulty), "aten::nothing", "-o", str(tmp_path / "third")]) == 2
