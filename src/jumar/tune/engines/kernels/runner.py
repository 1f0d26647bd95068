"""A program as a function of PyTorch's tensors."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from jumar.tune.engines.kernels.library import Bound, Library
from jumar.tune.engines.kernels.program import ROOM, Program, aligned
from jumar.tune.graph import Graph, Reference
from jumar.tune.graph.fx import to_fx
from jumar.tune.model.errors import TuneError

Tensors = dict[Reference, torch.Tensor]


class Runner:
    """Computes a graph by its program, one call at a time: calls share one arena."""

    def __init__(
        self,
        program: Program,
        library: Library,
        graph: Graph,
        constants: Mapping[int, torch.Tensor],
        num_threads: int,
        *,
        reuse: bool = False,
    ) -> None:
        script = program.script
        self._program, self._graph = program, graph
        self._variables = graph.variables  # which a graph looks for among all its inputs
        self._num_threads, self._reuse = num_threads, reuse
        self._images: int = graph.inputs[graph.variables[0]].shape[0] if script["images"] else 0
        copies = num_threads if self._images else 1
        self._memory = aligned(program.arena_size * copies + ROOM, np.float32)
        arena = self._memory.ctypes.data
        self.bound = Bound(library, program.operations, program.weights, program.tables, arena)
        self._externals: list[Reference] = script["externals"]
        self._stored: list[Reference] = script["stored"]
        self._outputs: list[Reference | None] = script["outputs"]
        self._contiguous = set(script["contiguous"])
        self._kept: Tensors = {}
        self._strides = np.zeros((max(1, len(self._externals)), 4), np.int64)
        self._pointers = (ctypes.c_void_p * max(1, len(self._externals)))()
        self._aliases: Mapping[str, Reference] = script["aliases"]
        self._items = [self._item(item) for item in script["items"]]
        self.constants = self._read(constants)
        """The weights that are read as they are, by place."""

    def _read(self, constants: Mapping[int, torch.Tensor]) -> Tensors:
        """Return the weights that are read as they are; the kernels have the others in a form of their own."""
        nodes = (item["aten"] for item in self._program.script["items"] if "aten" in item)
        taken = (value for part in nodes for value in self._graph.part(part).taken)
        asked = {*self._externals, *taken, *(value for value in self._outputs if value is not None)}
        sources = asked | {self._aliases.get(str(value), value) for value in asked}
        return {source: constants[source] for source in sources if source in constants}

    def __call__(self, *inputs: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        """Return the outputs for these variable inputs."""
        values: Tensors = dict(zip(self._variables, inputs, strict=True))
        for place, value in values.items():
            spec = self._graph.inputs[place]
            if tuple(value.shape) != spec.shape or value.dtype is not torch.float32 or value.device.type != "cpu":
                got = f"{value.dtype} {list(value.shape)} on {value.device}"
                raise TuneError(f"input {place} must be float32 {list(spec.shape)} on the CPU; got {got}.")
        self._bind(values)
        for item in self._items:
            item(values)
        return tuple(None if value is None else self._output(values, value) for value in self._outputs)

    def _bind(self, values: Tensors) -> None:
        for reference in self._stored:
            values[reference] = self._fresh(reference)
        for number, reference in enumerate(self._externals):
            value = values.get(reference)
            if value is not None:
                if reference in self._contiguous:
                    value = values[reference] = value.contiguous()
                self._point(number, value)
            elif reference in self.constants:
                self._point(number, self.constants[reference])

    def _point(self, number: int, value: torch.Tensor) -> None:
        self._pointers[number] = value.data_ptr()
        stride = value.stride()
        self._strides[number, : len(stride)] = stride

    def _fresh(self, reference: Reference) -> torch.Tensor:
        if self._reuse and reference in self._kept:
            return self._kept[reference]
        spec = self._graph.spec_of(reference)
        assert spec is not None
        made = torch.empty_strided(spec.shape, spec.stride, dtype=torch.float32)
        if self._reuse:
            self._kept[reference] = made
        return made

    def _output(self, values: Tensors, reference: Reference) -> torch.Tensor:
        spec = self._graph.spec_of(reference)
        if spec is None:
            return values[reference]
        output = self._taken(values, reference, spec.shape)
        if output.stride() == spec.stride:
            return output
        return torch.empty_strided(spec.shape, spec.stride, dtype=output.dtype).copy_(output)

    def _item(self, item: Mapping[str, Any]) -> Callable[[Tensors], None]:
        first, last = item["run"]
        own = self._aten(item["aten"]) if "aten" in item else None

        def run(values: Tensors) -> None:
            if last > first:
                self._run(first, last)
            if own is not None:
                own(values)

        return run

    def _run(self, first: int, last: int) -> None:
        strides = self._strides.ctypes.data
        if self._images:
            self.bound.run_images(
                first, last, self._program.arena_size, list(self._pointers), strides, self._images, self._num_threads
            )
        else:
            self.bound.run(first, last, ctypes.addressof(self._pointers), strides, self._num_threads)

    def _aten(self, nodes: Sequence[Reference]) -> Callable[[Tensors], None]:
        part = self._graph.part(nodes)
        module = to_fx(part.graph)
        shapes = [self._graph.spec_of(value) for value in part.taken]

        def call(values: Tensors) -> None:
            taken = [
                self._taken(values, value, spec.shape)
                for value, spec in zip(part.taken, shapes, strict=True)
                if spec is not None
            ]
            for value, made in zip(part.given, module(*taken), strict=True):
                values[value] = made.contiguous() if value in self._contiguous else made
                if value in self._externals:
                    self._point(self._externals.index(value), values[value])

        return call

    def _taken(self, values: Tensors, value: Reference, shape: tuple[int, ...]) -> torch.Tensor:
        source = self._aliases.get(str(value), value)
        found = values[source] if source in values else self.constants[source]
        return found if tuple(found.shape) == shape else found.reshape(shape)
