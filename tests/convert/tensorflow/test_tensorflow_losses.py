"""Scripts of TensorFlow train to the same losses before and after the conversion, and each session is the NPU's."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from jumar.convert import convert_tree

HERE = Path(__file__).parent
NAMES = sorted(path.name for path in (HERE / "programs").glob("*.py"))
OF_GRAPHS = (
    "horovod_session.py", "keras_v1.py", "mixed_precision.py", "monitored_session.py", "session_convnet.py",
    "session_saver.py",
)  # fmt: skip
"""Programs that make their sessions themselves, or through Keras."""

pytestmark = pytest.mark.slow


def ran(python: Path, folder: Path, modules: Sequence[str]) -> dict[str, Any]:
    scripts = [str(folder / name) for name in NAMES]
    folders = [name if name == "jumar" else str(HERE / name) for name in modules]
    command = [str(python), str(HERE / "run_programs.py"), *folders, "--", *scripts]
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "TF_ENABLE_ONEDNN_OPTS": "0"}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment, timeout=300)
    return {Path(name).name: result for name, result in json.loads(done.stdout.splitlines()[-1]).items()}


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The converted programs."""
    out = tmp_path_factory.mktemp("converted") / "programs"
    convert_tree(HERE / "programs", cache=False).write(out)
    return out


@pytest.fixture(scope="module")
def before(tensorflow: Path) -> dict[str, Any]:
    """What each program did before the conversion, with Horovod for one process."""
    return ran(tensorflow, HERE / "programs", ["horovod_of_one"])


@pytest.fixture(scope="module")
def after(tensorflow: Path, converted: Path) -> dict[str, Any]:
    """What each converted program did with the names that it takes from the adapter, and no others."""
    return ran(tensorflow, converted, ["stand_in"])


@pytest.fixture(scope="module")
def by_jumar(tensorflow: Path, converted: Path) -> dict[str, Any]:
    """What each converted program did under `jumar run`."""
    return ran(tensorflow, converted, ["jumar"])


def numbers(result: dict[str, Any]) -> list[float]:
    assert result["error"] == ""
    return [float(loss) for loss in result["losses"]]


@pytest.mark.parametrize("name", NAMES)
def test_the_losses_stay(before: dict[str, Any], after: dict[str, Any], name: str) -> None:
    assert len(numbers(before[name])) >= 4
    assert numbers(after[name]) == pytest.approx(numbers(before[name]), rel=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_the_losses_stay_under_jumar_run(before: dict[str, Any], by_jumar: dict[str, Any], name: str) -> None:
    """The conversion of mixed precision asks for a precision mode: matrix operators then round to float16."""
    tolerance = 5e-3 if name == "mixed_precision.py" else 1e-6
    assert numbers(by_jumar[name]) == pytest.approx(numbers(before[name]), rel=tolerance)


@pytest.mark.parametrize("name", OF_GRAPHS)
def test_every_session_names_the_npu(before: dict[str, Any], after: dict[str, Any], name: str) -> None:
    assert set(before[name]["sessions"]) == {False}
    assert set(after[name]["sessions"]) == {True}
