"""`check_agreement`: ONNX Runtime computes of a converted model what TensorFlow computed of the model itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from jumar.tune.model.errors import TuneError

TOLERANCES: Mapping[str, float] = {"float64": 1e-6, "float32": 1e-3, "float16": 2e-2}
"""The greatest difference over the greatest value that rounding in another order explains, by dtype; integers are
equal. A wrong conversion (another padding, layout or operator) differs by far more."""

Array = np.ndarray[Any, Any]


def check_agreement(
    path: Path, onnx: Path, inputs: Mapping[str, Array], reference: Sequence[Array], names: Sequence[str]
) -> float:
    """Return the greatest difference over the greatest value, of all outputs that are no integers.

    `reference` are TensorFlow's outputs of `inputs`, called `names`, in the order of the ONNX file's. Raises TuneError
    for an output beyond tolerance, which it names, and where ONNX Runtime is missing or cannot run the file.
    """
    found = _outputs(path, onnx, inputs)
    if len(found) != len(reference):
        raise TuneError(f"{path} has {len(reference)} outputs, and its ONNX file {len(found)}. Leave some of them out.")
    worst = 0.0
    for name, ours, theirs in zip(names, found, reference, strict=True):
        error = difference(ours, theirs)
        allowed = TOLERANCES.get(theirs.dtype.name, 0.0)
        if not error <= allowed:
            raise TuneError(
                f"{path} must not be tuned as ONNX: tf2onnx wrote another model, whose output {name} differs from "
                f"TensorFlow's by {error:.3g} of the greatest value, where {allowed:.3g} is allowed. Give the ONNX "
                "file of another exporter, or leave that output out."
            )
        worst = max(worst, error)
    return worst


def difference(ours: Array, theirs: Array) -> float:
    """Return the greatest difference over the greatest value of `theirs`; infinite where no value says how much.

    That is: other shapes or dtypes, other integers, NaN or Inf in other places.
    """
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return float("inf")
    if theirs.dtype.kind not in "fc":
        return 0.0 if np.array_equal(ours, theirs) else float("inf")
    finite = np.isfinite(theirs)
    if not np.array_equal(finite, np.isfinite(ours)) or not np.array_equal(ours[~finite], theirs[~finite], True):
        return float("inf")
    gap = float(np.max(np.abs(ours[finite].astype("f8") - theirs[finite].astype("f8")), initial=0.0))
    scale = float(np.max(np.abs(theirs[finite]), initial=0.0))
    return gap / scale if scale and gap else gap


def _outputs(path: Path, onnx: Path, inputs: Mapping[str, Array]) -> list[Array]:
    try:
        import onnxruntime
    except ImportError as error:
        raise TuneError(
            f"{path} is checked against TensorFlow by ONNX Runtime, which is missing: pip install 'jumar[tune]'."
        ) from error
    try:
        session = onnxruntime.InferenceSession(str(onnx), providers=["CPUExecutionProvider"])
        wanted = {one.name for one in session.get_inputs()}
        made = session.run(None, {name: value for name, value in inputs.items() if name in wanted})
    except Exception as error:  # onnxruntime's errors have no base of their own but Exception
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise TuneError(
            f"{path} cannot be tuned as ONNX: ONNX Runtime does not run what tf2onnx wrote ({reason[:300]}). Give the "
            "ONNX file of another exporter."
        ) from error
    return [np.asarray(one) for one in made]
