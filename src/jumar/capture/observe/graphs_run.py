"""Runs the graphs of compiled regions so that each operator is noted with its module and line."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from jumar.capture.notes.attribution import Origin
from jumar.capture.observe.observer import Observer
from jumar.capture.probes import SourceProbe
from jumar.capture.watch.modules import named_tensors
from jumar.capture.watch.notebook import Notebook
from jumar.capture.watch.stack import Frame

_FRAME = re.compile(r'File "([^"]+)", line (\d+)')
_ROOT = re.compile(r"L\['[^']+'\](?:\.|$)|L__[a-z]+___?")


class Region:
    """A compiled region as one operator: called by the observer, and named by it.

    The observer notes nothing inside: it would see only the few kernels that are PyTorch's own.
    """

    def __init__(self, name: str, run: Callable[..., Any], notebook: Notebook) -> None:
        self._name = name
        self._run = run
        self._notebook = notebook

    def name(self) -> str:
        """Return the name of its row."""
        return self._name

    def __call__(self, *args: Any) -> Any:
        """Run the region."""
        watch = self._notebook.watch
        was_busy, watch.busy = watch.busy, True
        try:
            return self._run(*args)
        finally:
            watch.busy = was_busy


class GraphRunner:
    """Runs graphs operator by operator while a step is recorded, and the compiled code at all other times."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._notebook = observer.notebook
        self._is_on = True
        self._origins: dict[torch.fx.Node, Origin | None] = {}
        self.last_was_as_it_is = False
        """Whether the region compiled last runs its graph as AOTAutograd made it."""

    def stop(self) -> None:
        """Run only what was compiled from now on."""
        self._is_on = False
        self._origins.clear()

    @property
    def _takes_notes(self) -> bool:
        return self._is_on and self._notebook.takes_notes

    def in_place_of(self, made: Callable[..., Any], module: torch.fx.GraphModule) -> Callable[..., Any]:
        """Return a callable that runs `made`, or the graph of `module` while a step is recorded."""

        @functools.wraps(made, updated=())
        def run(*args: Any) -> Any:
            return _Interpreter(module, self).run(*args) if self._takes_notes else made(*args)

        return run

    def around_compiler(self, compiler: Callable[..., Any]) -> Callable[..., Any]:
        """Return a compiler of AOTAutograd whose graphs run by themselves, or are interpreted while recorded."""

        @functools.wraps(compiler, updated=())
        def compile_graph(module: torch.fx.GraphModule, inputs: Any, **options: Any) -> Any:
            made = compiler(module, inputs, **options)

            def run(args: list[Any]) -> Any:
                if not self._takes_notes:
                    return made(args)
                given = list(args)
                args.clear()  # as a boxed call does: what the caller no longer needs is freed on the way
                return _Interpreter(module, self).run(*given, enable_io_processing=False)

            run._boxed_call = True  # type: ignore[attr-defined]
            return run

        return compile_graph

    def at_borders(self, made: Callable[..., Any], name: str) -> Callable[..., Any]:
        """Return a callable that runs `made` as one operator of the run, with rows of its gradients."""
        region = Region(name, made, self._notebook)

        @functools.wraps(made, updated=())
        def run(*args: Any) -> Any:
            if not self._takes_notes:
                return made(*args)
            result = self._observer.operators.run(region, args, {})
            stack = self._notebook.watch.stack
            with self._notebook.own_work():
                inputs, outputs = list(named_tensors("input", args)), list(named_tensors("output", result))
                path = stack[-1].path if stack else ""
                self._observer.gradients.attach(path, region.name(), inputs, outputs)
            return result

        return run

    @contextmanager
    def at(self, node: torch.fx.Node) -> Iterator[None]:
        """What runs inside belongs where the node says."""
        origin = self._origin(node)
        if origin is None:
            yield
            return
        frame = Frame(_NOWHERE, origin.module_path, origin.module_type)
        frame.origin = origin
        stack = self._notebook.watch.stack
        stack.append(frame)
        try:
            yield
        finally:
            stack.pop()

    def _origin(self, node: torch.fx.Node) -> Origin | None:
        if node not in self._origins:
            self._origins[node] = self._find(node)
        return self._origins[node]

    def _find(self, node: torch.fx.Node) -> Origin | None:
        stack = node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack") or {}
        source = self._line(str(node.meta.get("stack_trace") or ""))
        if not stack:
            return Origin("", "", source) if source and not self._notebook.watch.stack else None
        number, (place, kind) = list(stack.items())[-1]
        path = self._observer.names.of_number(int(number)) if str(number).isdecimal() else None
        if path is None:
            outer = self._notebook.watch.stack[-1].path if self._notebook.watch.stack else ""
            path = ".".join(part for part in (outer, _below_root(place)) if part)
        return Origin(path, getattr(kind, "__name__", str(kind).rpartition(".")[2]), source)

    def _line(self, trace: str) -> str:
        """Return the innermost line of user code of a trace, as rows name it."""
        probe = next((probe for probe in self._notebook.probes if isinstance(probe, SourceProbe)), None)
        for file, number in reversed(_FRAME.findall(trace)):
            shown = probe.lines.show(file) if probe is not None else ""
            if shown:
                return f"{shown}:{number}"
        return ""


def _below_root(place: str) -> str:
    """Return the path below the module that was compiled: `0.fc` of `L['self'].0.fc`."""
    return _ROOT.sub("", place, count=1).replace("['", "").replace("']", "")


_NOWHERE: Any = torch.nn.Identity()
"""Stands for the module of a frame that no module call made."""


class _Interpreter(torch.fx.Interpreter):
    def __init__(self, module: torch.fx.GraphModule, runner: GraphRunner) -> None:
        super().__init__(module)
        self._runner = runner

    def run_node(self, n: torch.fx.Node) -> Any:
        if n.op in {"placeholder", "output", "get_attr"}:
            return super().run_node(n)
        with self._runner.at(n):
            return super().run_node(n)
