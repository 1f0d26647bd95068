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
    command = [str(python), str(HERE / "run_programs.py"), *(str(HERE / name) for name in modules), "--", *scripts]
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "TF_ENABLE_ONEDNN_OPTS": "0"}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment, timeout=300)
    return {Path(name).name: result for name, result in json.loads(done.stdout.splitlines()[-1]).items()}


@pytest.fixture(scope="module")
def before_and_after(
    tensorflow: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What each program did before the conversion (with Horovod for one process), and after it (without)."""
    out = tmp_path_factory.mktemp("converted") / "programs"
    convert_tree(HERE / "programs", cache=False).write(out)
    return ran(tensorflow, HERE / "programs", ["horovod_of_one"]), ran(tensorflow, out, ["stand_in"])


@pytest.mark.parametrize("name", NAMES)
def test_the_losses_stay(before_and_after: tuple[dict[str, Any], dict[str, Any]], name: str) -> None:
    before, after = (results[name] for results in before_and_after)
    assert (before["error"], after["error"]) == ("", "")
    assert len(before["losses"]) >= 4
    assert [float(loss) for loss in after["losses"]] == pytest.approx(
        [float(loss) for loss in before["losses"]], rel=1e-6
    )


@pytest.mark.parametrize("name", OF_GRAPHS)
def test_every_session_names_the_npu(before_and_after: tuple[dict[str, Any], dict[str, Any]], name: str) -> None:
    before, after = (results[name]["sessions"] for results in before_and_after)
    assert set(before) == {False}
    assert set(after) == {True}
