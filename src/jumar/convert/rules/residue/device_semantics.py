"""## What it does
Notes, once a file and kind, what is converted by name and behaves otherwise on an NPU: random states and seeds,
events, streams with priorities, graphs, limits on memory, handles of streams (`stream.cuda_stream`).

## Why it matters
The same seed draws other random numbers; a saved CUDA random state cannot be set on an NPU; a captured graph has
other restrictions; a raw stream handle has another name (`npu_stream`), so reading it raises AttributeError.

## Example
```python
torch.cuda.set_rng_state(checkpoint['cuda_rng_state'])
kernel(stream.cuda_stream)
```

## Use instead
```python
if 'npu_rng_state' in checkpoint:
    torch.npu.set_rng_state(checkpoint['npu_rng_state'])
kernel(stream.npu_stream)
```

## Fix safety
No fix: names are converted by JM101; these are differences to know.

## References
- torch_npu 2.13 (`torch_npu/npu/streams.py`), Ascend/pytorch `docs/zh/developer_notes/npugraph.md`
- https://pytorch.org/docs/stable/notes/randomness.html
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal
from jumar.convert.model.spans import Span
from jumar.convert.rules.subject.context import Context, keyword
from jumar.convert.rules.subject.places import distinct, summary
from jumar.convert.syntax.source import Reference, Source

RULE = Rule(
    code="JM140",
    name="device-semantics",
    summary="Something is converted by name and behaves otherwise on an NPU.",
    severity=Severity.INFO,
    doc=__doc__,
)


@dataclass(frozen=True, slots=True)
class _Kind:
    names: frozenset[str]
    message: str
    action: str
    severity: Severity = Severity.INFO


_KINDS = (
    _Kind(
        frozenset({"set_rng_state", "set_rng_state_all", "get_rng_state", "get_rng_state_all"}),
        "Random states of the device are kept; those of CUDA cannot be set on an NPU",
        "Skip the state of old checkpoints; runs do not continue with the same random numbers.",
        Severity.ADVICE,
    ),
    _Kind(
        frozenset({"manual_seed", "manual_seed_all", "seed", "seed_all", "default_generators"}),
        "The device is seeded; the same seed draws other random numbers on an NPU",
        "Compare runs by their statistics, or draw on the CPU what must be equal.",
    ),
    _Kind(
        frozenset({"CUDAGraph", "graph", "make_graphed_callables", "graph_pool_handle", "graphs.graph"}),
        "CUDA graphs are captured; NPU graphs have other restrictions",
        "Capture with static shapes and no host synchronisation; see npugraph in the documents of torch_npu.",
        Severity.ADVICE,
    ),
    _Kind(
        frozenset({"set_per_process_memory_fraction"}),
        "The share of memory is of the NPU's, which differs in size",
        "Check the fraction against torch.npu.mem_get_info().",
    ),
)
_HANDLES = {"cuda_stream": "npu_stream", "cuda_event": "npu_event"}


def find(context: Context) -> Iterator[Proposal]:
    """Report each kind of difference once a file."""
    source = context.source
    found: dict[_Kind, list[Span]] = {}
    options: list[Span] = []
    for reference in distinct(source.references):
        if not reference.name.startswith("torch.cuda."):
            continue
        rest = reference.name.removeprefix("torch.cuda.").removeprefix("random.")
        for kind in _KINDS:
            if rest in kind.names:
                found.setdefault(kind, []).append(source.span(reference.node))
        options += _options(source, reference, rest)
    for kind, spans in found.items():
        yield from summary(source, RULE, spans, kind.message, severity=kind.severity, action=kind.action)
    yield from summary(
        source, RULE, options, "Streams with a priority, or events shared between processes, are asked for",
        severity=Severity.ADVICE, action="Check that they have the effect on the NPU, or leave the argument out.",
    )  # fmt: skip
    yield from _handles(source)


def _options(source: Source, reference: Reference, rest: str) -> Iterator[Span]:
    for name in {"Stream": ("priority",), "Event": ("interprocess",)}.get(rest, ()):
        argument = keyword(reference.call, name) if reference.call is not None else None
        if argument is not None:
            yield source.span(argument)


def _handles(source: Source) -> Iterator[Proposal]:
    """Report raw handles of streams and events, which only extensions take."""
    for node in source.nodes(cst.Attribute):
        new = _HANDLES.get(node.attr.value)
        if new is not None and node not in source.tree.stored:
            yield Proposal(
                rule=RULE, span=source.span(node.attr), severity=Severity.WARNING, confidence="likely",
                message=f"`.{node.attr.value}` is `.{new}` on an NPU, and what takes it is compiled for CUDA.",
                action=f"Read .{new} where an NPU operator takes it.",
            )  # fmt: skip
