"""From a folder of operator descriptions to tasks: what `torch.npu.set_aoe(folder)` left.

The form of the files is in jumar docs emulator-dump. Descriptions hold shapes and arguments, not how often and how
long an operator ran, so that tasks come in the order of their work: the greatest tensors first. Parameters are weights
that hold the same values in every call, as in a recording of inference, unless an operator of a training step is
described, too.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from jumar.base.errors import InputError
from jumar.tune.model.errors import TuneError
from jumar.tune.model.task import Task, TensorSpec
from jumar.tune.search.tasks.extract import Extraction, LeftOut, TaskUse, classify, name_tasks

VERSION = 1


Described = tuple[Path, Mapping[str, Any]]
"""A file and what it describes."""


def read_descriptions(folder: Path) -> list[Described]:
    """Return the files of a folder that are descriptions; other files are passed over.

    Raises InputError for one of a newer form.
    """
    found: list[Described] = list(_descriptions(folder))
    for path, description in found:
        if description["format_version"] > VERSION:
            raise InputError(
                f"{path} has form {description['format_version']} and this Jumar reads up to {VERSION}. Update Jumar."
            )
    return found


def described_device(described: Sequence[Described]) -> str:
    """Return the device whose operators are described, e.g. `Ascend910A`."""
    return str(described[0][1].get("soc") or "npu")


def extract_descriptions(described: Sequence[Described]) -> Extraction:
    """Return the tasks that are described, each once."""
    uses: dict[str, TaskUse] = {}
    left_out: LeftOut = {}
    has_weights = not any(_is_training(description) for _, description in described)
    for _, description in described:
        task = partial(_task, description, has_weights=has_weights)
        group = classify(str(description["operator"]), task, uses, left_out)
        group.num_calls += 1
    tasks = sorted(uses.values(), key=lambda use: (-_num_elements(use.task), use.task.key))
    name_tasks(tasks)
    return Extraction(tasks=tasks, not_tuned=list(left_out.values()), num_calls=len(described))


def _descriptions(folder: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    for path in sorted(folder.glob("*.json")):
        try:
            found = json.loads(path.read_bytes())
        except (OSError, ValueError, RecursionError):
            continue
        if isinstance(found, dict) and isinstance(found.get("format_version"), int) and "operator" in found:
            yield path, found


def _is_training(description: Mapping[str, Any]) -> bool:
    """Tell whether an operator belongs to a training step: a gradient's, or one that writes to a parameter."""
    name = str(description["operator"]).rpartition("::")[2].partition(".")[0]
    if "backward" in name:
        return True
    writes = name.endswith("_") or name.startswith(("_foreach_", "_fused_"))
    inputs = description.get("inputs")
    return writes and isinstance(inputs, list) and any(_is_parameter(tensor) for tensor in inputs)


def _is_parameter(tensor: object) -> bool:
    return isinstance(tensor, dict) and tensor.get("is_parameter") is True


def _task(description: Mapping[str, Any], *, has_weights: bool) -> Task:
    from jumar.tune.graph.operators import task_from

    operator = description["operator"]
    try:
        given: dict[str, Any] = dict(description["attributes"])
        for tensor in description["inputs"]:
            name = tensor["name"]
            if name in given:
                raise TuneError(f"{operator} takes a list of tensors, which is not rebuilt so far.")
            given[name] = TensorSpec(
                shape=tuple(tensor["shape"]), stride=tuple(tensor["strides"]), dtype=str(tensor["dtype"]),
                constant=has_weights and _is_parameter(tensor),
            )  # fmt: skip
    except (KeyError, TypeError, ValueError) as error:
        raise TuneError(f"its description is damaged ({type(error).__name__}: {error}); describe it again.") from error
    return task_from(operator, given)


def _num_elements(task: Task) -> int:
    return sum(math.prod(spec.shape) for spec in task.tensors.values())
