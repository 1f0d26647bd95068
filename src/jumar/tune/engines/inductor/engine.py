"""TorchInductor: the graph compiled to C++ (or Triton) kernels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

from jumar.base.process.threads import threads
from jumar.operators import has, has_any
from jumar.tune.engines.base import Engine, GraphFunction, Precision, Settings, Site
from jumar.tune.engines.eager import CHANNELS_LAST, MKL, has_channels, mkl_may_pay, step_settings
from jumar.tune.graph import Graph
from jumar.tune.model.machine import Machine
from jumar.tune.model.process import variable

_CACHE = "TORCHINDUCTOR_CACHE_DIR"


class Inductor(Engine):
    """Settings, each of which may be left out:

    - `freezing`: weights are packed and folded;
    - `layout`: `channels_last`, converted at the borders;
    - `products`: `mkl`, linear layers with weights that MKL has packed;
    - `max_autotune`: products from templates, chosen by measuring (CPP and ATEN on the CPU, Triton on CUDA);
    - `coordinate_descent`: tiles of Triton kernels, tuned one parameter after the other.

    Kernels are made for the site's number of threads. A graph for inference becomes a library with a C++ wrapper,
    which is loaded without Python's compiler stack; a training step is called through Python and loaded from a cache
    folder, in the forms of `jumar.tune.engines.training.steps`.
    """

    name = "inductor"
    preload = ("torch._dynamo", "torch._inductor.compile_fx")
    is_slow_to_build = True
    takes_steps = True

    def unavailable(self, machine: Machine) -> str:
        """Say that it needs a C++ compiler."""
        if machine.compiler:
            return ""
        return "TorchInductor needs a C++ compiler and none was found; install g++ or set CXX."

    def version(self) -> str:
        """Return PyTorch's."""
        return version("torch")

    def settings(self, graph: Graph, machine: Machine, precision: Precision = "fp32") -> Sequence[Settings]:
        """Offer freezing where there are weights, layouts and templates where operators have them."""
        if precision != "fp32":  # a lower precision is written into the graph, not set here
            return []
        if graph.gradients:
            return step_settings(graph)
        base: dict[str, Any] = {"freezing": True} if graph.constants else {}
        found: list[Settings] = [base]
        if machine.device != "cpu":
            found += [base | {"max_autotune": True}, base | {"max_autotune": True, "coordinate_descent": True}]
            return found
        if has_channels(graph):
            found.append(base | {"layout": CHANNELS_LAST})
        if base and mkl_may_pay(graph):
            found.append(base | {"products": MKL})
        if any(_is_product(node.operator) for node in graph.nodes):
            found.append(base | {"max_autotune": True})
        if base:
            found.append({})
        return found

    def build(self, site: Site, settings: Settings) -> GraphFunction:
        """Compile it. Raises whatever TorchInductor raises."""
        with _configured(site, settings):
            if site.graph.gradients:
                from jumar.tune.engines.training.steps import compiled_step

                return compiled_step(site, settings)
            from jumar.tune.engines.inductor.aot import built

            return built(site, settings)

    def load(self, site: Site, settings: Settings) -> GraphFunction:
        """Return the library's function, or what the cache folder holds."""
        if site.graph.gradients:
            return self.build(site, settings)
        from jumar.tune.engines.inductor.aot import loaded

        return loaded(site, settings)


@contextmanager
def _configured(site: Site, settings: Settings) -> Iterator[None]:
    """Set what the settings say; put everything back afterwards."""
    import torch
    from torch._inductor import config
    from torch._inductor.utils import fresh_cache

    changes: dict[str, Any] = {
        # In this process: its limits and its end are the candidate's.
        "compile_threads": 1,
        "freezing": bool(settings.get("freezing")),
        "max_autotune": bool(settings.get("max_autotune")),
        "max_autotune_gemm_backends": "CPP,ATEN" if site_device(site) == "cpu" else "TRITON,ATEN",
        "autotune_num_choices_displayed": 0,
        "coordinate_descent_tuning": bool(settings.get("coordinate_descent")),
        "cpp.threads": site.num_threads,
        "fallback_random": site.draws_as_eager,
    }
    # A library is written once and holds all it needs; a step is found again in what its compilation has left.
    cache = _cached_at(site.folder) if site.graph.gradients else fresh_cache(dir=str(site.folder), delete=False)
    with threads(site.num_threads), torch.no_grad(), config.patch(changes), cache:
        yield


@contextmanager
def _cached_at(folder: Path) -> Iterator[None]:
    """Let TorchInductor keep what it compiles in `folder`, and find there what it has compiled."""
    from torch._inductor.utils import clear_caches

    with variable(_CACHE, str(folder)):
        clear_caches()
        try:
            yield
        finally:
            clear_caches()


def site_device(site: Site) -> str:
    """Return the kind of device that the site's tensors are on."""
    tensors = [*site.example, *site.constants.values()]
    return tensors[0].device.type if tensors else "cpu"


def _is_product(operator: str) -> bool:
    return has_any(operator, "product", "convolution") and not has(operator, "backward")
