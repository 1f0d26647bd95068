"""`Tuning`: what becomes of a TensorFlow program that is to be tuned.

The document on AOE: with `AOE_MODE`, or with `aoe_mode` in its options, a training's graph goes to the tuner in its
first step. Jumar's tuner measures under PyTorch. So the forward part of the graph is written, with the values of its
variables and the shapes of that step, and `jumar tune` gets it, which converts it by this Python's tf2onnx.
The tuner writes the result file; without it there is none, because nothing was measured.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from jumar.base.errors import OutputError
from jumar.base.files import write_bytes
from jumar.base.outside.frameworks import TENSORFLOW_PYTHON
from jumar.base.process import children
from jumar.capture.frameworks.tensorflow.graph import of_model, of_session

HANDLED = "in tune mode, training graph handled by tools."
TUNES = "Aoe tuning graph."
"""The lines that the document names: of the adapter, and of the tuner as it starts."""
TUNER = "JUMAR_TUNER"


def tuning_mode(option: str) -> str:
    """Return the mode of tuning: that of the environment, else of an option; empty without one."""
    return os.environ.get("AOE_MODE", "").strip() or option


def tuning_folder(work_path: str) -> Path:
    """Return where files of tuning go: `work_path`, ASCEND_WORK_PATH, else the working folder."""
    return Path(work_path or os.environ.get("ASCEND_WORK_PATH", "").strip() or ".")


@dataclass
class Tuning:
    """The tuning that a program asked for."""

    mode: str
    folder: Path
    config: str = ""
    """The `aoe_config_file` of the program's options."""
    path: Path | None = None
    inputs: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    reason: str = "no session and no `fit` ran a training step"
    """Why there is no graph."""

    def take(self, source: Any, targets: Sequence[Any] = (), feed: Mapping[Any, Any] | None = None) -> None:
        """Write the graph of a session's training step, or of a model of Keras.

        Raises OutputError where the folder cannot be written.
        """
        _print(HANDLED)
        try:
            graph, self.inputs, self.outputs = (
                of_model(source) if hasattr(source, "layers") else of_session(source, targets, feed or {})
            )
        except (KeyError, TypeError, ValueError) as error:
            self.reason = f"its graph cannot be written: {error}"
            return
        path = self.folder / f"jumar_graph_pid{os.getpid()}.pb"
        try:
            write_bytes(path, graph.SerializeToString())
        except OSError as error:
            raise OutputError(
                f"{path} cannot be written ({error.strerror}). Free space there, or set ASCEND_WORK_PATH."
            ) from error
        self.path = path

    def finish(self) -> str:
        """Hand the graph to the tuner, where one is here, and return what became of the tuning in a sentence."""
        if self.mode not in ("1", "2"):
            return f"{self._nothing()}: modes 1 (subgraphs) and 2 (operators) tune a TensorFlow program's graph"
        if self.path is None:
            return f"{self._nothing()}: {self.reason}"
        tune = ["tune", str(self.path), "--job-type", self.mode]
        tune += ["--aoe-config-file", self.config] if self.config else []
        written = f"The forward part of the first step is in {self.path}"
        later = f"Where PyTorch is: {TENSORFLOW_PYTHON}={shlex.quote(_python())} jumar {shlex.join(tune)}"
        if find_spec("tf2onnx") is None:
            return (
                f"{self._nothing()}: tf2onnx, which converts the graph for Jumar's tuner, is not installed here: "
                f"pip install 'jumar[tf2onnx]'. {written}. {later}"
            )
        tuner = _tuner()
        if not tuner:
            return (
                f"{self._nothing()}: Jumar's tuner measures under PyTorch, which is not installed here. {written}. "
                f"{later}; or name that jumar by {TUNER}"
            )
        _print(TUNES)
        code = subprocess.run([*tuner, *tune], check=False, env=_environment()).returncode
        if code > 1:  # 1: it has findings
            return (
                f"tuning (AOE mode {self.mode}): the tuner took {self.path} and ended with exit code {code}; see above"
            )
        return (
            f"tuning (AOE mode {self.mode}) of the backward part: the tuner took the forward part of the first step "
            f"({self.path}) and ended; it measured ONNX Runtime, OpenVINO and PyTorch, not TensorFlow"
        )

    def _nothing(self) -> str:
        return f"tuning (AOE mode {self.mode}): nothing was tuned, and no result file is written"


def _tuner() -> list[str]:
    """Return the command of a Jumar beside PyTorch; empty without one."""
    named = os.environ.get(TUNER, "").strip()
    if named:
        return [named]
    return children.command(module="jumar") if find_spec("torch") is not None else []


def _environment() -> dict[str, str]:
    """Return the environment for the tuner: its mode is an option, and this Python converts the graph."""
    return {name: value for name, value in os.environ.items() if name != "AOE_MODE"} | {TENSORFLOW_PYTHON: _python()}


def _python() -> str:
    """Return this interpreter, which has TensorFlow."""
    return children.of_the_user([])[0]


def _print(line: str) -> None:
    """Print a line where the adapter does, before what comes next."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
