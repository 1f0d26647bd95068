"""Looking at a machine: laid out in a folder, or the interpreter's answers given by hand."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from jumar.advise.doctor import survey
from jumar.advise.doctor.machine.host import Package
from jumar.advise.doctor.machine.interpreter import ask_interpreter
from jumar.advise.doctor.machine.survey import survey_governors, survey_npu, survey_volumes


def lay_out(root: Path, **files: str) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_governors_are_counted(tmp_path):
    names = {f"sys/devices/system/cpu/cpu{n}/cpufreq/scaling_governor": "powersave\n" for n in range(3)}
    names["sys/devices/system/cpu/cpu3/cpufreq/scaling_governor"] = "performance\n"
    assert survey_governors(lay_out(tmp_path, **names)) == {"powersave": 3, "performance": 1}
    assert survey_governors(tmp_path / "elsewhere") == {}


def test_cann_devices_and_stale_variables_are_found(tmp_path):
    home = tmp_path / "home"
    (home / "Ascend/ascend-toolkit").mkdir(parents=True)
    (tmp_path / "usr/local/Ascend/ascend-toolkit").mkdir(parents=True)
    lay_out(tmp_path, **{"dev/davinci0": "", "dev/davinci1": "", "dev/davinci_manager": ""})
    environ = {"HOME": str(home), "ASCEND_OPP_PATH": "/gone/opp", "ASCEND_HOME_PATH": str(home), "PATH": ""}
    npu = survey_npu(environ, tmp_path)
    assert [Path(folder).parts[-2:] for folder in npu.cann_folders] == [("Ascend", "ascend-toolkit")] * 2
    assert [Path(node).name for node in npu.device_nodes] == ["davinci0", "davinci1"]
    assert npu.missing_folders == ("ASCEND_OPP_PATH=/gone/opp",)
    assert npu.npu_smi is None


def test_one_file_system_is_measured_once_with_all_its_purposes(tmp_path):
    environ = {"TMPDIR": str(tmp_path), "HOME": str(tmp_path)}
    (volume,) = survey_volumes(environ, tmp_path)
    assert volume.purpose == "the working folder, temporary files, logs and kernel caches"


def answer(stdout: str, returncode: int = 0):
    return lambda *args, **kwargs: subprocess.CompletedProcess(args, returncode, stdout, "")


TORCH = '{"torch": {"version": "2.10.0", "error": null}'


@pytest.mark.parametrize(
    ("run", "torch", "torch_npu", "num_npus"),
    [
        (answer("{}"), Package(), Package(), None),
        (answer(TORCH + "}"), Package(installed=True, version="2.10.0"), Package(), None),
        (
            answer(TORCH + ', "torch_npu": {"version": "2.10.0", "error": null}, "num_npus": 8}'),
            Package(installed=True, version="2.10.0"),
            Package(installed=True, version="2.10.0"),
            8,
        ),
        (
            answer("noise\n" + TORCH + ', "torch_npu": {"version": "", "error": null}}\nnoise', -11),
            Package(installed=True, version="2.10.0"),
            Package(installed=True, error="importing it killed the interpreter (SIGSEGV)"),
            None,
        ),
        (answer("", 3), Package(error="importing it ended the interpreter with code 3"), Package(), None),
    ],
)
def test_the_interpreters_answer_is_understood_even_after_a_crash(run, torch, torch_npu, num_npus):
    python = ask_interpreter({}, run=run)
    assert (python.torch, python.torch_npu, python.num_npus) == (torch, torch_npu, num_npus)


def test_an_import_that_does_not_end_is_an_error_of_that_package():
    def run(*args, **kwargs):
        raise subprocess.TimeoutExpired(args, 1, output=(TORCH + "}").encode())

    assert "did not end" in (ask_interpreter({}, run=run).torch.error or "")


def test_the_emulated_torch_npu_does_not_answer_for_the_vendors():
    seen = {}

    def run(command, *, env, **kwargs):
        seen.update(env)
        return subprocess.CompletedProcess(command, 0, "{}", "")

    ask_interpreter({"JUMAR_DEVICE_PLAN": "{}", "PATH": "/bin"}, run=run)
    assert seen == {"PATH": "/bin"}


def test_a_package_that_raises_and_one_that_crashes_are_told_apart(tmp_path, monkeypatch):
    import os

    lay_out(
        tmp_path,
        **{"torch/__init__.py": "__version__ = '2.10.0'", "torch_npu/__init__.py": "import os; os.abort()"},
    )
    environ = {**os.environ, "PYTHONPATH": str(tmp_path)}
    python = ask_interpreter(environ)
    assert (python.torch.version, python.torch.error) == ("2.10.0", None)
    assert python.torch_npu.error == "importing it killed the interpreter (SIGABRT)"
    lay_out(tmp_path, **{"torch_npu/__init__.py": "raise ImportError('libhccl.so: cannot open')"})
    assert ask_interpreter(environ).torch_npu.error == "ImportError: libhccl.so: cannot open"


def test_this_machine_is_described():
    host = survey(folder=Path.cwd())
    assert host.python.version.split(".")[:2] == [str(part) for part in sys.version_info[:2]]
    assert host.python.torch.usable
    assert host.volumes
    assert (host.cores.num_cores or 0) > 0
