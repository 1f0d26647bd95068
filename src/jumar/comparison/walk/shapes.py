"""`Shapes`: follows tensors whose number of elements differs between the runs back to where they got it.

The call that makes tensors of other sizes of equally sized inputs is the cause (`x[:61]`, `randn(61, 8)`, `topk(20)`),
or data of another size. It is named once a call that calculates reads such a tensor on both sides. In a module in
which the runs calculate with other operators nothing is said: parts of a decomposed layer have sizes of their own.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from jumar.comparison.align.matching import Pair
from jumar.comparison.judge.judge import Judgement
from jumar.comparison.measure.distances import measure
from jumar.comparison.measure.leaves import Leaf
from jumar.comparison.measure.records import tensor_diff
from jumar.comparison.model.calls import Call, same_operator
from jumar.comparison.model.results import OperatorDiff
from jumar.recording.schema import TensorRow

Key = tuple[int, tuple[int, ...]]
Sized = tuple[str, TensorRow, TensorRow]


@dataclass(frozen=True, slots=True)
class Origin:
    """Where tensors got another size."""

    diff: OperatorDiff | None = None
    leaf: Leaf | None = None


class Shapes:
    """The sizes of one step's tensors."""

    def __init__(self, pairs: Iterable[Pair], parameters: frozenset[int]) -> None:
        self._parameters = parameters
        self._uneven = {
            _place(call)
            for pair in pairs
            if (pair.reference is None) != (pair.target is None) or pair.region
            if (call := pair.reference or pair.target) is not None and not call.layout_only
        }
        self._origins: dict[Key, Origin] = {}
        self._made: set[int] = set()

    def see(self, reference: Call, target: Call, judged: Judgement) -> Origin | None:
        """Take in a pair; return the origin of other sizes that it calculates with."""
        plain = reference.row.kind == "op" and same_operator(reference, target)
        read = list(_sized(reference.inputs, target.inputs)) if plain else []
        made = list(_sized(reference.outputs, target.outputs)) if plain else []
        origin = next((found for one in read if (found := self._origin(reference, *one)) is not None), None)
        if not read and made and len(reference.inputs) == len(target.inputs):
            origin = Origin(diff=judged.diff)
        for _, tensor, _ in made:
            if origin is not None:
                self._origins[_key(tensor)] = origin
        self._made.update(tensor.storage for tensor in reference.outputs.values())
        decides = read and made and not reference.layout_only and _place(reference) not in self._uneven
        return origin if decides else None

    def _origin(self, call: Call, name: str, reference: TensorRow, target: TensorRow) -> Origin | None:
        known = self._origins.get(_key(reference))
        if known is not None or reference.storage in self._made or reference.storage in self._parameters:
            return known
        if call.row.phase != "forward":
            return None
        leaf = Leaf(role="data", call=call, diff=tensor_diff(name, measure(reference, target)), drifted=False)
        known = self._origins[_key(reference)] = Origin(leaf=leaf)
        return known


def _sized(reference: dict[str, TensorRow], target: dict[str, TensorRow]) -> Iterator[Sized]:
    """Yield the tensors of equal name and rank with another number of elements."""
    for name, tensor in reference.items():
        other = target.get(name)
        if other is None or tensor.shape == other.shape or len(tensor.shape) != len(other.shape):
            continue
        if math.prod(tensor.shape) != math.prod(other.shape):
            yield name, tensor, other


def _key(tensor: TensorRow) -> Key:
    return tensor.storage, tensor.shape


def _place(call: Call) -> tuple[str, str]:
    return call.path, call.row.phase
