"""`compare`: outputs of ONNX Runtime beside PyTorch's, for the example inputs and for other sizes of open axes."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from jumar.export.onnx.factory import Built
from jumar.export.onnx.options import OnnxOptions

RUNTIME = "onnxruntime"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """How far one output of the ONNX model is from PyTorch's."""

    output: int
    name: str
    greatest_absolute: float
    greatest_relative: float
    num_beyond: int
    """Elements beyond the tolerance (NaN against NaN is none)."""
    shape: tuple[int, ...]
    reference_shape: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """What one run of the file showed."""

    sizes: Mapping[str, int]
    """Name of an open axis -> its size in this run; empty: the example inputs."""
    differences: tuple[Difference, ...] | None
    """None: not compared, for `reason`."""
    reason: str = ""
    is_fault: bool = False
    """Whether the file is to blame that nothing was compared: ONNX Runtime refuses it, or these inputs."""

    @property
    def agrees(self) -> bool:
        """Whether it was compared and no output differs."""
        return self.differences is not None and not any(item.num_beyond for item in self.differences)


class Runner:
    """A model file in ONNX Runtime. `refused` says why there is no session; None where there is one."""

    def __init__(self, file: Path) -> None:
        self.refused: str | None = None
        self.is_missing = importlib.util.find_spec(RUNTIME) is None
        if self.is_missing:
            self.refused = "ONNX Runtime is not installed (pip install 'jumar[export]')"
            return
        try:
            runtime = importlib.import_module(RUNTIME)
            settings = runtime.SessionOptions()
            settings.log_severity_level = 4
            self._session = runtime.InferenceSession(str(file), settings, providers=["CPUExecutionProvider"])
        except Exception as error:  # noqa: BLE001 - the classes of ONNX Runtime's errors have no base but Exception
            self.refused = f"ONNX Runtime does not take the file ({_line(error)})"

    def run(self, built: Built, tensors: Sequence[torch.Tensor]) -> list[np.ndarray]:
        """Return the outputs. Raises what ONNX Runtime raises, and TypeError for a dtype that NumPy lacks."""
        known = {item.name for item in self._session.get_inputs()}
        pairs = zip(built.names, tensors, strict=True)
        feed: Mapping[str, Any] = {name: item.numpy() for name, item in pairs if name in known}
        return [np.asarray(item) for item in self._session.run(None, feed)]

    @property
    def output_names(self) -> list[str]:
        """Names of the outputs in the file."""
        return [item.name for item in self._session.get_outputs()]


def compare(
    runner: Runner, built: Built, tensors: Sequence[torch.Tensor], reference: Sequence[np.ndarray],
    options: OnnxOptions, sizes: Mapping[str, int],
) -> Check:  # fmt: skip
    """Run the file on `tensors` and return each output's difference from `reference`."""
    if runner.refused is not None:
        return Check(sizes=sizes, differences=None, reason=runner.refused, is_fault=not runner.is_missing)
    try:
        results = runner.run(built, tensors)
    except TypeError as error:
        return Check(sizes=sizes, differences=None, reason=f"NumPy lacks a dtype of the inputs ({_line(error)})")
    except Exception as error:  # noqa: BLE001 - as above
        reason = f"ONNX Runtime stops ({_line(error)})"
        return Check(sizes=sizes, differences=None, reason=reason, is_fault=True)
    if len(results) != len(reference):
        reason = f"the file gives {len(results)} outputs and PyTorch {len(reference)}"
        return Check(sizes=sizes, differences=None, reason=reason, is_fault=True)
    rows = enumerate(zip(runner.output_names, results, reference, strict=True))
    return Check(sizes=sizes, differences=tuple(difference(index, *row, options) for index, row in rows))


def difference(index: int, name: str, result: np.ndarray, reference: np.ndarray, options: OnnxOptions) -> Difference:
    """Return how far `result` is from `reference`, and how many elements are beyond the tolerance."""
    shapes = {"shape": result.shape, "reference_shape": reference.shape}
    if result.shape != reference.shape:
        nan = float("nan")
        return Difference(
            output=index,
            name=name,
            greatest_absolute=nan,
            greatest_relative=nan,
            num_beyond=reference.size or 1,
            **shapes,
        )
    kind = np.complex128 if np.iscomplexobj(reference) or np.iscomplexobj(result) else np.float64
    computed, expected = result.astype(kind), reference.astype(kind)
    same = (computed == expected) | (np.isnan(computed) & np.isnan(expected))
    with np.errstate(invalid="ignore", divide="ignore"):
        gap = np.where(same, 0.0, np.abs(computed - expected))
        relative = np.where(same, 0.0, gap / np.abs(expected))
        within = gap <= options.absolute_tolerance + options.relative_tolerance * np.abs(expected)
    return Difference(
        output=index, name=name, greatest_absolute=float(gap.max(initial=0.0)),
        greatest_relative=float(relative.max(initial=0.0)), num_beyond=int((~(same | within)).sum()), **shapes,
    )  # fmt: skip


def _line(error: BaseException) -> str:
    line = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
    return line[:200].rstrip(".")
