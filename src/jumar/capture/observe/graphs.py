"""Regions of `torch.compile`: what runs in them is observed through the graphs that Dynamo and AOTAutograd make.

A back end that runs a graph as it is (`eager`, `aot_eager`) has its graph run by an interpreter instead while a
step is recorded: the same operators in the same order, so the same bits, and each knows its module and line from
its node. A back end that makes kernels of its own (`inductor`) is recorded at the borders of the region, because
its numbers are not those of any graph; with `compiled="graph"` the graph runs in its place, operator by operator.
"""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Callable
from typing import Any

import torch

from jumar.capture.notes.patches import Patches
from jumar.capture.observe.graphs_run import GraphRunner
from jumar.capture.observe.observer import Observer
from jumar.capture.plans.plan import Compiled

_OUTPUT_GRAPH = "torch._dynamo.output_graph"
_AS_IT_IS = re.compile(r"boxed_nop")


class GraphWatch:
    """Watches what `torch.compile` compiles from `start` on; `regions` holds the code and how it is observed."""

    def __init__(self, observer: Observer, compiled: Compiled) -> None:
        self._observer = observer
        self._compiled = compiled
        self._patches = Patches()
        self._runner = GraphRunner(observer)
        self._is_in_place = False
        self.regions: dict[Any, str] = {}
        """Code that was compiled to `graph`, `borders` or `instead` (the graph in place of kernels)."""
        self.with_modules: dict[Any, None] = {}
        """Those of them that call modules: the compiler leaves no call that a row could be made of."""

    def start(self) -> None:
        """Begin to watch; the compiler is not imported by a program that does not use it."""
        if _OUTPUT_GRAPH in sys.modules:
            self._watch_compiler()
        else:
            compile_ = torch.compile

            @functools.wraps(compile_)
            def watched(*args: Any, **kwargs: Any) -> Any:
                self._watch_compiler()
                return compile_(*args, **kwargs)

            self._patches.replace(torch, "compile", watched)

    def stop(self) -> None:
        """Take the wrappers away; regions compiled meanwhile run as their back end made them."""
        self._patches.restore()
        self._runner.stop()

    def _watch_compiler(self) -> None:
        if self._is_in_place:
            return
        self._is_in_place = True
        from torch._dynamo.backends.common import AotAutograd
        from torch._dynamo.output_graph import OutputGraph

        call_compiler = OutputGraph.__dict__["_call_user_compiler"]

        @functools.wraps(call_compiler)
        def watched(graph: Any, *args: Any, **kwargs: Any) -> Any:
            backend = graph.compiler_fn
            graph.compiler_fn = self._around(backend, graph.root_tx.f_code)
            try:
                return call_compiler(graph, *args, **kwargs)
            finally:
                graph.compiler_fn = backend

        self._patches.replace(OutputGraph, "_call_user_compiler", watched)
        call_aot = AotAutograd.__dict__["__call__"]

        @functools.wraps(call_aot)
        def observed(backend: Any, *args: Any, **kwargs: Any) -> Any:
            if not _AS_IT_IS.search(str(backend.kwargs.get("fw_compiler"))):
                return call_aot(backend, *args, **kwargs)
            self._runner.last_was_as_it_is = True
            given = backend.kwargs
            backend.kwargs = given | {
                name: self._runner.around_compiler(given[name])
                for name in ("fw_compiler", "bw_compiler", "inference_compiler")
                if given.get(name) is not None
            }
            try:
                return call_aot(backend, *args, **kwargs)
            finally:
                backend.kwargs = given

        self._patches.replace(AotAutograd, "__call__", observed)

    def _around(self, backend: Any, code: Any) -> Callable[..., Any]:
        @functools.wraps(backend, updated=())
        def compile_graph(module: torch.fx.GraphModule, inputs: Any, **options: Any) -> Any:
            runner = self._runner
            if any(node.meta.get("nn_module_stack") for node in module.graph.nodes):
                self.with_modules[code] = None
            runner.last_was_as_it_is = False
            made = backend(module, inputs, **options)
            if runner.last_was_as_it_is:
                self.regions.setdefault(code, "graph")
                return made
            if made is module or getattr(made, "__self__", None) is module:
                self.regions.setdefault(code, "graph")
                return runner.in_place_of(made, module)
            if self._compiled == "graph":
                self.regions[code] = "instead"
                return runner.in_place_of(made, module)
            self.regions[code] = "borders"
            return runner.at_borders(made, f"compiled.{code.co_name}")

        return compile_graph
