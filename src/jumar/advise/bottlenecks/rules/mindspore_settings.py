"""JM480 mindspore-settings.

## What it does
Looks at how a recorded MindSpore program is set up, in the order of MindSpore's tuning guide: static graph mode, data
sink mode, mixed precision, graph kernel fusion, compile cache. One finding for each that the program leaves off.

## Why it matters
PyNative mode starts each operator by itself; a static graph is compiled once, fused, and runs without the host between
operators. With data sink mode the device reads its data itself while it computes. The matrix unit of an Ascend chip
takes float16; MatMul in float32 is several times slower there. Graph kernel fusion makes one operator of many small
ones.

## Example
```python
model.train(10, dataset, dataset_sink_mode=False)
```

## Use instead
```python
ms.set_context(mode=ms.GRAPH_MODE, jit_config={"jit_level": "O1"})  # O1 fuses
model = Model(net, loss, optimizer, amp_level="O2")
model.train(10, dataset, dataset_sink_mode=True)
```
Turn data sink mode off again while you debug: with it an epoch gives one result.

## Fix safety
No edit is made. Mixed precision changes numbers: compare the losses.

## References
MindSpore migration guide, "framework performance".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jumar.advise.bottlenecks.run import Run
from jumar.advise.checks import Outcomes
from jumar.base.findings import Finding, Severity
from jumar.base.rules import Rule
from jumar.base.text import counted

RULE = Rule(
    code="JM480",
    name="mindspore-settings",
    summary="A MindSpore program leaves a setting off that makes it faster.",
    severity=Severity.ADVICE,
    doc=__doc__,
)

PRODUCTS = frozenset({"mm", "bmm", "convolution", "linear"})


def find(run: Run) -> Outcomes:
    """Yield one finding a setting. Says nothing of other frameworks' recordings, nor of what was not recorded."""
    if run.info.framework != "mindspore":
        return
    wide = sum(_is_wide(call.base, call.row.inputs) for step in run.steps for call in step.calls)
    settings = run.info.settings
    yield from _modes(settings)
    if wide:
        number = wide / max(run.totals.num_steps, 1)
        yield _finding(
            f"{counted(round(number), 'matrix product or convolution', 'matrix products and convolutions')} a step "
            "multiply float32: no mixed precision is on.",
            "The matrix unit multiplies float16.",
            "Build the model with amp_level='O2' (or net.to_float(ms.float16)), and a loss scale.",
            {"products_per_step": round(number, 1)},
        )


def _modes(settings: dict[str, Any]) -> Iterator[Finding]:
    if settings.get("mode_asked") == "PyNative":
        yield _finding(
            "The program runs in PyNative mode.",
            "A static graph is compiled once, fused, and runs without the host between operators.",
            "Once it is debugged, set ms.set_context(mode=ms.GRAPH_MODE).",
            {"mode": "PyNative"},
        )
    elif settings.get("mode_asked") == "Graph" and settings.get("graph_kernel") is False:
        yield _finding(
            "Graph kernel fusion is off.",
            "It makes one operator of many small ones.",
            "Set jit_config={'jit_level': 'O1'} (before MindSpore 2.3: enable_graph_kernel=True) and measure.",
            {"graph_kernel": False},
        )
    if settings.get("mode_asked") == "Graph" and settings.get("compile_cache") is False:
        yield _finding(
            "The graph is compiled in the first step of each run: no compile cache is on.",
            "A large graph compiles for minutes. How long it takes here was not measured: it ran in PyNative mode.",
            "Set enable_compile_cache=True, which helps from the second run on; mark a block that repeats with "
            "@lazy_inline.",
            {"compile_cache": False},
        )
    if settings.get("dataset_sink_mode") is False:
        yield _finding(
            "Model.train runs with dataset_sink_mode=False.",
            "With it the device reads its data while it computes, and the host does not start each step.",
            "Set dataset_sink_mode=True; turn it off again to debug.",
            {"dataset_sink_mode": False},
        )


def _is_wide(base: str, inputs: Any) -> bool:
    return base in PRODUCTS and any(tensor.dtype == "float32" for tensor in inputs)


def _finding(message: str, why: str, action: str, evidence: dict[str, Any]) -> Finding:
    return RULE.finding(message, evidence=evidence, why=why, action=action, confidence="likely")
