"""`torch.npu.set_aoe`: descriptions of the operators that ran, one file each, for a tuning command to read.

The form of the files is in jumar docs emulator-dump. An operator that was described is not described again: the
file is named by a hash of the description, so ranks that share a folder write the same files.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from jumar.base.files import explained, write_text
from jumar.npu.core.state import STATE, set_options
from jumar.npu.dump.folder import file_name
from jumar.npu.formats.ledger import compile_cache, ledger
from jumar.npu.formats.ledger.operands import Operand, inputs_of, outputs_of

VERSION = 1
SWITCH, FOLDER = "autotune", "autotunegraphdumppath"


def set_aoe(dump_path: str | Path) -> None:
    """Describe every operator that runs from now on in this folder, which is made where it is missing.

    Raises ValueError, as the vendor's does, for a path that cannot be a folder.
    """
    path = Path(dump_path) if str(dump_path) else None
    try:
        if path is None:
            raise OSError("the path is empty")
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"the path of '{dump_path}' is invalid: {error.strerror or error}") from error
    set_options({SWITCH: "enable", FOLDER: str(path.absolute())})


@contextlib.contextmanager
def describing(folder: Path) -> Iterator[None]:
    """Describe the operators that run within the block."""
    known: set[str] = set()

    def write(execution: ledger.Execution) -> None:
        if not ledger.runs(execution.event):
            return
        text = json.dumps(description(execution), indent=1, sort_keys=True)
        digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        if digest in known:
            return
        known.add(digest)
        file = folder / f"{file_name(execution.event.operator)}-{digest}.json"
        if not file.exists():
            with explained(file):
                write_text(file, f"{text}\n")

    with ledger.follow(write):
        yield


def description(execution: ledger.Execution) -> dict[str, Any]:
    """Return one operator as JSON can hold it."""
    event = execution.event
    inputs, outputs = inputs_of(event), outputs_of(event)
    return {
        "format_version": VERSION,
        "operator": event.operator,
        "soc": STATE.soc,
        "torch_version": torch.__version__,
        "inputs": [_tensor(event.operator, *pair) for pair in zip(inputs, execution.input_formats, strict=True)],
        "outputs": [_tensor(event.operator, *pair) for pair in zip(outputs, execution.output_formats, strict=True)],
        "attributes": compile_cache.attributes_of(event),
    }


def _tensor(operator: str, item: Operand, format: str) -> dict[str, Any]:
    tensor = item.tensor
    found: dict[str, Any] = {
        "argument": item.argument,
        "shape": list(tensor.shape),
        "strides": list(tensor.stride()),
        "dtype": str(tensor.dtype).removeprefix("torch."),
        "format": format,
    }
    if item.argument >= 0:
        found["name"] = compile_cache.argument_name(operator, item.argument)
        found["is_parameter"] = isinstance(_seen_through(tensor), torch.nn.Parameter)
    return found


def _seen_through(tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor that a view shows: `nn.Linear` hands its transposed weight over."""
    base = None if tensor.is_inference() else tensor._base
    return tensor if base is None else base
