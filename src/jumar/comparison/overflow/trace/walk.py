"""Walks through the calls of one step and follows NaN and Inf from memory to memory."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

from jumar.comparison.measure.scales import elements, is_known, num_nonfinite
from jumar.comparison.model.kinds import QUERIES, SCALER_CHECK, UNINITIALISED, VIEWS
from jumar.comparison.overflow.results import OriginKind
from jumar.comparison.overflow.trace import semantics
from jumar.comparison.overflow.trace.explain import Bad, Load, Sign, judge, sign_after, sign_in, sign_of_literal
from jumar.comparison.overflow.trace.roles import Roles, identity, reads
from jumar.recording.schema import CallRow, TensorRow

OPTIMIZER = "the optimizer"
_LEAST, _GRADIENT, _LOSS = 1, 2, 3


@dataclass(slots=True)
class Source:
    """Where NaN or Inf first appears; filled in while the walk goes on."""

    kind: OriginKind
    row: CallRow
    tensor: TensorRow
    sign: Sign
    exact: bool = False
    reaches: str = ""
    rank_of_reach: int = 0
    absorbed: CallRow | None = None
    turned: CallRow | None = None
    num_reads: int = 0
    met_scaler: bool = False

    def reach(self, what: str, rank: int) -> None:
        """Note where it is used. The loss counts more than a gradient, a gradient more than the optimizer."""
        if rank > self.rank_of_reach:
            self.reaches, self.rank_of_reach = what, rank


@dataclass(frozen=True, slots=True)
class Trace:
    """The non-finite elements of one memory."""

    sources: tuple[int, ...]
    sign: Sign


class StepWalk:
    """The walk through one step. `load` gives whole tensors where they were recorded."""

    def __init__(self, rows: Sequence[CallRow], roles: Roles, load: Load) -> None:
        self.sources: list[Source] = []
        self._rows = rows
        self._roles = roles
        self._load = load
        self._traces: dict[Hashable, Trace] = {}
        self._extent: dict[Hashable, int] = {}
        self._written: dict[Hashable, CallRow] = {}
        self._outlives: set[Hashable] = set()
        self._unread: set[Hashable] = set()

    def run(self) -> list[Source]:
        """Walk, and return the sources in the order of the calls."""
        for row in self._rows:
            if row.kind == "loss":
                self._sink(row.outputs, "the loss", _LOSS)
            elif row.kind == "parameter":
                self._parameter(row)
            elif row.kind == self._roles.level:
                self._call(row)
        self._end()
        return self.sources

    # -- calls --------------------------------------------------------------------------------

    def _call(self, row: CallRow) -> None:
        operator = semantics.operator_of(row.name) if row.kind == "op" else row.name.lower()
        read = [tensor for tensor in row.inputs if reads(row, operator, tensor)]
        self._outlives.update(key for tensor in row.inputs if (key := identity(tensor)) not in self._written)
        if operator not in VIEWS and operator not in semantics.CHECKS:
            self._unread.difference_update(identity(tensor) for tensor in read)
        bad = [(tensor, self._trace(row, operator, tensor)) for tensor in read if num_nonfinite(tensor)]
        came = tuple(dict.fromkeys(number for _, trace in bad for number in trace.sources))
        unseen = self._unseen(read)
        self._note_reads(row, operator, (*came, *unseen))
        if operator in VIEWS and {identity(t) for t in row.outputs} <= {identity(t) for t in row.inputs}:
            return
        bads = [Bad(tensor, trace.sign) for tensor, trace in bad]
        if bad and row.outputs and not any(num_nonfinite(t) or not is_known(t) for t in row.outputs):
            self._absorbed(row, operator, came)
        for tensor in row.outputs:
            self._output(row, operator, tensor, bads, came or unseen)

    def _unseen(self, read: Iterable[TensorRow]) -> tuple[int, ...]:
        """Return the sources of inputs whose values were not recorded."""
        traces = (self._traces.get(identity(tensor)) for tensor in read if not is_known(tensor))
        return tuple(dict.fromkeys(number for trace in traces if trace is not None for number in trace.sources))

    def _note_reads(self, row: CallRow, operator: str, sources: tuple[int, ...]) -> None:
        is_check = operator.rstrip("_") == SCALER_CHECK
        for number in sources:
            source = self.sources[number]
            if is_check:
                source.met_scaler = True
            elif operator not in semantics.CHECKS and operator not in QUERIES and operator not in VIEWS:
                source.num_reads += 1
                if row.phase == "optimizer" and source.kind != "constant":
                    source.reach(OPTIMIZER, _LEAST)

    def _absorbed(self, row: CallRow, operator: str, sources: tuple[int, ...]) -> None:
        if operator in semantics.CHECKS:
            return
        for number in sources:
            if self.sources[number].absorbed is None:
                self.sources[number].absorbed = row

    def _output(self, row: CallRow, operator: str, tensor: TensorRow, bad: list[Bad], came: tuple[int, ...]) -> None:
        key = identity(tensor)
        size = elements(tensor)
        is_whole = size >= self._extent.get(key, 0)
        self._extent[key] = max(size, self._extent.get(key, 0))
        old = self._traces.get(key)
        self._written[key] = row
        self._unread.add(key)
        if not num_nonfinite(tensor):
            if is_known(tensor):
                if is_whole:
                    self._traces.pop(key, None)
            elif came:
                self._traces[key] = Trace(came, "?")
            return
        if row.kind == "module" and old is not None:
            return  # a child has given it already
        arrays = self._load(row)
        verdict = judge(row, operator, tensor, bad, arrays)
        sources = came if verdict.inherited else ()
        sign: Sign = sign_after(operator, bad, tensor)
        if verdict.inherited and tensor.num_nan and not any(item.tensor.num_nan for item in bad):
            self._turned(row, came)
        if verdict.own:
            source = self._own(row, operator, tensor, sign)
            source.exact = verdict.exact
            sources, sign = (*sources, len(self.sources) - 1), source.sign
        if arrays is not None and tensor.name in arrays:
            sign = sign_in(arrays[tensor.name])
        if old is not None and not is_whole:
            sources = tuple(dict.fromkeys((*old.sources, *sources)))
            sign = sign if sign == old.sign else "?"
        self._traces[key] = Trace(sources, sign)

    def _turned(self, row: CallRow, sources: tuple[int, ...]) -> None:
        for number in sources:
            if self.sources[number].turned is None:
                self.sources[number].turned = row

    def _own(self, row: CallRow, operator: str, tensor: TensorRow, sign: Sign) -> Source:
        """Note that the call itself made elements that are not finite."""
        kind: OriginKind = "overflow" if tensor.num_inf else "invalid"
        found = semantics.literals(row)
        if operator in UNINITIALISED:
            kind = "uninitialised"
        elif tensor.num_inf and not tensor.num_nan and any(math.isinf(value) for value in found):
            kind, sign = "constant", sign_of_literal(row)
        elif any(math.isnan(value) for value in found):
            kind = "constant"
        return self._add(Source(kind, row, tensor, sign))

    def _add(self, source: Source) -> Source:
        self.sources.append(source)
        return source

    # -- memory -------------------------------------------------------------------------------

    def _trace(self, row: CallRow, operator: str, tensor: TensorRow) -> Trace:
        """Return the trace of an input that is not finite; a new source where nothing is known of it."""
        key = identity(tensor)
        trace = self._traces.get(key)
        if trace is not None:
            return trace
        source = Source(self._leaf_kind(row, operator, tensor), row, tensor, "?")
        arrays = self._load(row)
        if arrays is not None and tensor.name in arrays:
            source.sign, source.exact = sign_in(arrays[tensor.name]), True
        self._add(source)
        self._extent[key] = max(elements(tensor), self._extent.get(key, 0))
        trace = self._traces[key] = Trace((len(self.sources) - 1,), source.sign)
        return trace

    def _leaf_kind(self, row: CallRow, operator: str, tensor: TensorRow) -> OriginKind:
        writer = self._written.get(identity(tensor))
        if writer is not None:
            return "peer" if writer.name.startswith("c10d::") else "unseen"
        if tensor.name.startswith("grad_output"):
            return "unseen"
        if row.name.startswith("c10d::"):
            return "state"
        if elements(tensor) == 1 and not tensor.num_nan and not tensor.shape:
            return "constant"
        role = self._roles.of_leaf(row, operator, tensor)
        if role == "data":
            return "data"
        return "parameter" if role == "parameter" else "state"

    # -- uses ---------------------------------------------------------------------------------

    def _parameter(self, row: CallRow) -> None:
        name = ".".join(part for part in (row.module_path, row.name) if part)
        self._sink(row.inputs, f"the gradient of {name}", _GRADIENT)
        self._sink(row.outputs, f"the parameter {name}", _GRADIENT)

    def _sink(self, tensors: Iterable[TensorRow], what: str, rank: int) -> None:
        for tensor in tensors:
            trace = self._traces.get(identity(tensor))
            if trace is not None and (num_nonfinite(tensor) or not is_known(tensor)):
                for number in trace.sources:
                    self.sources[number].reach(what, rank)

    def _end(self) -> None:
        """Look at what is left when the step is over."""
        for key, trace in self._traces.items():
            what = self._left(key)
            for number in trace.sources if what else ():
                source = self.sources[number]
                if source.kind != "constant" or source.turned is not None:
                    source.reach(what, _LEAST)

    def _left(self, key: Hashable) -> str:
        """Return what a memory that is not finite at the end of the step is; empty when it does no harm."""
        writer = self._written.get(key)
        if writer is not None and key in self._outlives and writer.phase != "backward":
            name = self._roles.names.get(key)
            return f"the parameter {name}" if name else "memory that outlives the step"
        if not self._roles.has_update and writer is not None and writer.phase == "backward" and key in self._unread:
            return "a gradient"
        if self._roles.has_update or self._roles.has_loss:
            return ""
        if key in self._roles.results:
            return "the output of the model"
        is_last = not self._roles.results and writer is not None and key in self._unread
        return "the last results of the recording" if is_last else ""


def walk(rows: Sequence[CallRow], roles: Roles, load: Load) -> list[Source]:
    """Return the sources of NaN and Inf in a step, in the order of the calls."""
    return StepWalk(rows, roles, load).run()
