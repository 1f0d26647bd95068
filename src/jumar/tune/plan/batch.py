"""The batch cut into pieces: which inputs carry it, the graph of a piece, and the pieces put together again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import torch

from jumar.tune.engines.base import GraphFunction
from jumar.tune.engines.shared.sessions import num_forks
from jumar.tune.graph import Graph
from jumar.tune.graph.fx import to_fx
from jumar.tune.graph.inputs import overwrite
from jumar.tune.model.errors import TuneError
from jumar.tune.model.task import TensorSpec
from jumar.tune.plan.respecialise import Scale, batch_of, respecialise

AGREEMENT = 1e-3
"""Greatest difference of a piece from the whole, of the greatest value. Rounding is far below, statistics over the
batch far above; how exact a candidate is, the gate judges."""


@dataclass(frozen=True, slots=True)
class Cut:
    """How a graph's batch is cut: `size` rows, and the variable inputs (by their number) that carry it."""

    graph: Graph
    size: int
    carriers: frozenset[int]

    def piece(self, size: int) -> Graph:
        """Return the graph of `size` rows. Raises TuneError when the batch does not run through to every output."""
        specs: dict[int, TensorSpec] = {}
        for number, place in enumerate(self.graph.variables):
            if number in self.carriers:
                spec = self.graph.inputs[place]
                specs[place] = replace(spec, shape=(size, *spec.shape[1:]))
        piece = respecialise(self.graph, specs, Scale(self.size, size))
        for whole, part in zip(self.graph.outputs, piece.outputs, strict=True):
            _check_output(self.graph, whole, piece, part, self.size, size)
        return piece

    def rows(self, tensors: Sequence[torch.Tensor], start: int, size: int) -> list[torch.Tensor]:
        """Return the variable inputs of the piece that begins at row `start`."""
        return [
            tensor.narrow(0, start, size) if number in self.carriers else tensor
            for number, tensor in enumerate(tensors)
        ]


def cut_batch(graph: Graph, sizes: Sequence[int]) -> Cut:
    """Return how `graph` is cut into pieces of `sizes` rows. Raises TuneError when they are not its batch."""
    whole = batch_of(graph)
    if sum(sizes) != whole or min(sizes) < 1:
        raise TuneError(
            f"a batch of {whole} cannot be cut into pieces of {' + '.join(map(str, sizes))}; they must add up to it."
        )
    if graph.effects:
        raise TuneError("the graph writes to its inputs, so that its batch cannot be cut; leave the batch whole.")
    shapes = [graph.inputs[place].shape for place in graph.variables]
    carriers = frozenset(number for number, shape in enumerate(shapes) if shape and shape[0] == whole)
    return Cut(graph, whole, carriers)


def prove(
    cut: Cut, pieces: Mapping[int, Graph], sizes: Sequence[int], constants: Mapping[int, torch.Tensor],
    example: Sequence[torch.Tensor],
) -> None:  # fmt: skip
    """Compare pieces with the whole, in eager mode on real inputs. Raises TuneError when rows depend on each other."""
    expected = _run(cut.graph, constants, example)
    start = 0
    for size in sizes:
        made = _run(pieces[size], constants, cut.rows(example, start, size))
        for number, (whole, part) in enumerate(zip(expected, made, strict=True)):
            if whole is not None and not _agree(whole.narrow(0, start, size), part):
                raise TuneError(
                    f"output {number} differs when the batch is cut into {' + '.join(map(str, sizes))}: rows depend on "
                    "each other (statistics over the batch); leave the batch whole."
                )
        start += size


def in_pieces(cut: Cut, sizes: Sequence[int], run: Callable[[Sequence[Callable[[], None]]], None],
              functions: Sequence[GraphFunction]) -> GraphFunction:  # fmt: skip
    """Return a function that computes piece after piece into outputs of the whole size.

    `functions` has one for each piece; `run` is given what computes each, in order, and may do so at once.
    """
    specs = [None if value is None else cut.graph.spec_of(value) for value in cut.graph.outputs]
    starts = [sum(sizes[:place]) for place in range(len(sizes))]

    def call(*tensors: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        outputs = [None if spec is None else _empty(spec, tensors[0].device) for spec in specs]

        def compute(place: int) -> None:
            start, size = starts[place], sizes[place]
            for whole, part in zip(outputs, functions[place](*cut.rows(tensors, start, size)), strict=True):
                if whole is not None:
                    overwrite(whole.narrow(0, start, size), part)

        run([lambda place=place: compute(place) for place in range(len(sizes))])  # type: ignore[misc]
        return tuple(outputs)

    return call


def _check_output(graph: Graph, whole: int | None, piece: Graph, part: int | None, old: int, new: int) -> None:
    if whole is None or part is None:
        return
    one, other = graph.spec_of(whole), piece.spec_of(part)
    if one is None or other is None or not one.shape or one.shape[0] != old or other.shape != (new, *one.shape[1:]):
        raise TuneError(f"an output ({one}) does not carry the batch of {old} in its first dimension; leave it whole.")


def _run(
    graph: Graph, constants: Mapping[int, torch.Tensor], example: Sequence[torch.Tensor]
) -> tuple[torch.Tensor, ...]:
    variables = iter(example)
    values = [constants[place] if spec.constant else next(variables) for place, spec in enumerate(graph.inputs)]
    with torch.no_grad():
        made: tuple[torch.Tensor, ...] = to_fx(graph)(*values)
    return made


def _agree(whole: torch.Tensor, part: torch.Tensor) -> bool:
    if not whole.is_floating_point():
        return torch.equal(whole, part)
    scale = whole[torch.isfinite(whole)].abs().max().item() if torch.isfinite(whole).any() else 0.0
    return torch.allclose(whole, part, rtol=AGREEMENT, atol=AGREEMENT * scale, equal_nan=True)


def _empty(spec: TensorSpec, device: torch.device) -> torch.Tensor:
    return torch.empty_strided(spec.shape, spec.stride, dtype=getattr(torch, spec.dtype), device=device)


Runner = Callable[[Sequence[Callable[[], None]]], None]


def one_after_the_other(pieces: Sequence[Callable[[], None]]) -> None:
    """Compute the pieces in order."""
    for compute in pieces:
        compute()


def at_once(num_streams: int, num_threads: int) -> Runner:
    """Return what computes pieces in `num_streams` threads, each with `num_threads` of its own.

    The calling thread is one of them; a forked process makes its own. Piece `i` belongs to stream `i` modulo
    `num_streams`, always. What a piece raises is raised to the caller, after all streams have ended.
    """
    made: dict[int, list[ThreadPoolExecutor]] = {}

    def run(pieces: Sequence[Callable[[], None]]) -> None:
        pools = made.get(num_forks())
        if pools is None:
            pools = made.setdefault(num_forks(), _pools(num_streams - 1, num_threads))
        modes = torch.is_grad_enabled(), torch.is_inference_mode_enabled()
        waiting = [pool.submit(_carry_out, pieces[stream::num_streams], *modes) for stream, pool in enumerate(pools, 1)]
        try:
            one_after_the_other(pieces[::num_streams])
        finally:
            errors = [future.exception() for future in waiting]
        for error in errors:
            if error is not None:
                raise error

    return run


def _pools(count: int, num_threads: int) -> list[ThreadPoolExecutor]:
    return [ThreadPoolExecutor(1, "jumar-stream", torch.set_num_threads, (num_threads,)) for _ in range(count)]


def _carry_out(pieces: Sequence[Callable[[], None]], grad: bool, inference: bool) -> None:
    """Compute pieces in this thread under the caller's modes, which PyTorch keeps by thread."""
    with torch.inference_mode(inference), torch.set_grad_enabled(grad):
        one_after_the_other(pieces)
