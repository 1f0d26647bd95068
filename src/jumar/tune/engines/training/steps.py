"""Training steps: the forward in another form, differentiated by PyTorch, run by it or compiled by TorchInductor.

- `{}`: as it stands;
- `{"layout": "channels_last"}`: images and filters with their channels last (`step_forms`);
- `{"layout": "channels_last", "products": True}`: convolutions of one pixel as matrix products as well;
- `{…, "norms": True}`: batch normalisation by a kernel of our own as well, not for TorchInductor, which has its own.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from jumar.tune.engines.base import GraphFunction, Settings, Site
from jumar.tune.engines.training.batch_norm import check_library
from jumar.tune.engines.training.step_forms import in_form
from jumar.tune.graph.fx import annotated
from jumar.tune.graph.operators import of_variables
from jumar.tune.graph.steps import stepped


def eager_step(site: Site, settings: Settings) -> GraphFunction:
    """Return the step run operator by operator. Raises TuneError for a graph that does not take the form."""
    if settings.get("norms"):
        check_library()
    return _of_variables(site, stepped(site.graph, in_form(annotated(site.graph), settings).forward))


def compiled_step(site: Site, settings: Settings) -> GraphFunction:
    """Compile the step as `torch.compile` does, or take it from TorchInductor's cache, which the caller has set.

    The backward is compiled here, too, not when it is called first. TorchInductor keeps in its cache only what it
    was given as TorchDynamo gives it: with tensors that stand for others, of known shapes, and their tracing context.
    """
    from torch._functorch import config
    from torch._guards import TracingContext, tracing
    from torch._inductor.compile_fx import compile_fx
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    module = in_form(annotated(site.graph), settings)
    standing = FakeTensorMode(shape_env=ShapeEnv(), allow_non_fake_inputs=True, static_shapes=True)
    example = [standing.from_tensor(tensor, static_shapes=True) for tensor in _example(site)]
    at_once = config.patch("force_non_lazy_backward_lowering", True)
    with torch.enable_grad(), at_once, tracing(TracingContext(standing)):
        run: Any = compile_fx(_plain(module), example)
    return _of_variables(site, stepped(site.graph, run))


def _of_variables(site: Site, step: GraphFunction) -> GraphFunction:
    """Return a step as a function of its variable inputs; the module's own numbers (`z[:, 1] = 0`) are constants."""
    return of_variables(step, site.graph.inputs, site.constants)


def _example(site: Site) -> list[torch.Tensor]:
    made = []
    for place, spec in enumerate(site.graph.inputs):
        tensor = torch.empty_strided(spec.shape, spec.stride, dtype=getattr(torch, spec.dtype))
        made.append(tensor.requires_grad_(place in site.graph.gradients))
    return made


def _plain(module: fx.GraphModule) -> fx.GraphModule:
    """Return the module without the values of another tracing, which TorchInductor would take for its own.

    What methods are called on is marked as a tensor, as TorchDynamo marks it: otherwise nothing is kept in the cache.
    """
    for node in module.graph.nodes:
        node.meta.pop("val", None)
        if node.op == "call_method" and isinstance(node.args[0], fx.Node):
            node.args[0].meta.setdefault("example_value", None)
    return module
