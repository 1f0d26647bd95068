"""`Roles`: what each memory of a step holds (data, parameters, losses), and which tensors a call reads."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field

from jumar.comparison.measure.leaves import WEIGHTS
from jumar.comparison.model.kinds import OVERWRITING
from jumar.comparison.overflow.trace import semantics
from jumar.operators import is_in_place, named
from jumar.recording.schema import CallRow, Kind, TensorRow

SHAPE_ONLY = named("shape_only")
"""These read the shape of an input and none of its values."""

_TRAINING = ("training", "is_training")
"""Arguments of batch norm in PyTorch, and in MindSpore and TensorFlow."""


def identity(tensor: TensorRow) -> Hashable:
    """Return the identity of a tensor's memory: its storage number, or shape and values in dumps without numbers."""
    if tensor.storage:
        return tensor.storage
    known = tensor.hash or repr((tensor.minimum, tensor.maximum, tensor.mean, tensor.l2))
    return (tensor.shape, tensor.dtype, known, tensor.num_nan, tensor.num_inf)


def reads(row: CallRow, operator: str, tensor: TensorRow) -> bool:
    """Return whether a call reads the values of one of its inputs."""
    if operator in SHAPE_ONLY:
        return False
    if tensor.name == "input.0" and operator in OVERWRITING and is_in_place(row.name):
        return False
    if tensor.name.startswith("input.out") and row.name.endswith("out"):
        return False
    is_running = operator == "native_batch_norm" and tensor.name in {"input.3", "input.4"}
    return not (is_running and any(f'"{name}": true' in row.arguments for name in _TRAINING))


@dataclass(slots=True)
class Roles:
    """Memory of one step by what it is for."""

    data: set[Hashable] = field(default_factory=set)
    """Inputs of the model as a whole."""
    results: set[Hashable] = field(default_factory=set)
    """Outputs of the model as a whole."""
    parameters: set[Hashable] = field(default_factory=set)
    names: dict[Hashable, str] = field(default_factory=dict)
    """Parameters by name, where the recording has rows for them."""
    losses: set[Hashable] = field(default_factory=set)
    has_update: bool = False
    """Whether an optimizer ran in the step."""
    level: Kind = "op"
    """The rows that are walked: operators, or modules where no operator was recorded."""

    @property
    def has_loss(self) -> bool:
        """Whether a loss was recorded."""
        return bool(self.losses)

    def of_leaf(self, row: CallRow, operator: str, tensor: TensorRow) -> str:
        """Return the role of memory that no call of the step has written, first read by `row`."""
        key = identity(tensor)
        if key in self.data:
            return "data"
        if key in self.parameters:
            return "parameter" if row.phase == "forward" or key in self.names else "state"
        if row.phase == "forward" and (operator, tensor.name) in WEIGHTS:
            return "parameter"
        if row.phase == "forward" and not row.module_path and tensor.shape:
            return "data"
        return "state"


def roles_of(rows: Iterable[CallRow]) -> Roles:
    """Return the roles of a step's memory."""
    rows = list(rows)
    roles = Roles()
    kinds = {row.kind for row in rows}
    roles.level = "op" if "op" in kinds else "module"
    outermost = min(
        (row.module_path.count(".") + bool(row.module_path) for row in rows if row.kind == "module"), default=None
    )
    for row in rows:
        if row.kind == "loss":
            roles.losses.update(identity(tensor) for tensor in row.outputs)
        elif row.kind == "parameter":
            roles.has_update = True
            for tensor in row.outputs:
                roles.parameters.add(identity(tensor))
                roles.names[identity(tensor)] = ".".join(part for part in (row.module_path, row.name) if part)
        elif row.kind == "module" and row.phase == "forward":
            if row.module_path.count(".") + bool(row.module_path) == outermost:
                roles.data.update(identity(tensor) for tensor in row.inputs)
                roles.results.update(identity(tensor) for tensor in row.outputs)
        elif row.kind == "op" and row.phase == "optimizer":
            operator = semantics.operator_of(row.name)
            roles.has_update |= is_in_place(row.name) and not operator.startswith("_amp_")
            roles.parameters.update(identity(tensor) for tensor in row.inputs)
    roles.data -= roles.results
    return roles
