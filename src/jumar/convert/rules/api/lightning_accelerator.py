"""## What it does
Gives Lightning's `Trainer` and `Fabric` an accelerator for NPUs, in place of `accelerator='gpu'`, `'cuda'`, `'auto'` or
none, and writes its class into the file, once. `precision='16-mixed'` and `'bf16-mixed'` become the plugin that casts
for the NPU.

## Why it matters
Lightning (2.6) has no accelerator for NPUs: it refuses the name `npu`, and `auto` trains on the CPU. It chooses the
device of one process by the class CUDAAccelerator, which the new class therefore extends. Its mixed precision casts for
CUDA whatever the accelerator is, and its DDP makes a stream of CUDA where a module is given device numbers: with more
than one device they are left out.

## Example
```python
trainer = pl.Trainer(accelerator='gpu', devices=2, precision='16-mixed')
```

## Use instead
```python
trainer = pl.Trainer(accelerator=NPUAccelerator(), devices=2, plugins=MixedPrecision('16-mixed', 'npu'))
```

The class:

```python
from lightning.pytorch.accelerators import CUDAAccelerator  # of lightning.fabric.accelerators for Fabric


class NPUAccelerator(CUDAAccelerator):
    # Lightning has none for NPUs. It chooses the device of a process by the class for CUDA.

    def setup_device(self, device):
        torch.npu.set_device(device)

    def setup(self, trainer):
        torch.npu.empty_cache()

    def teardown(self):
        torch.npu.empty_cache()

    def get_device_stats(self, device):
        return torch.npu.memory_stats(device)

    @staticmethod
    def parse_devices(devices):
        if isinstance(devices, str):
            devices = [int(part) for part in devices.split(",") if part] if "," in devices else int(devices)
        if isinstance(devices, int):
            return list(range(torch.npu.device_count() if devices == -1 else devices))
        return list(devices)

    @staticmethod
    def get_parallel_devices(devices):
        return [torch.device("npu", index) for index in devices]

    @staticmethod
    def auto_device_count():
        return torch.npu.device_count()

    @staticmethod
    def is_available():
        return torch.npu.is_available()

    @staticmethod
    def name():
        return "npu"
```

## Fix safety
Safe where the arguments are written out. Others, and strategies for GPUs, are reported: see JM134.

## References
- https://lightning.ai/docs/pytorch/stable/extensions/accelerator.html
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal, Replacement
from jumar.convert.rules.subject.context import Context, keyword, last_argument
from jumar.convert.syntax.literals import literal
from jumar.convert.syntax.source import Source

RULE = Rule(
    code="JM199",
    name="lightning-accelerator",
    summary="Lightning is to use GPUs, and has no accelerator for NPUs.",
    severity=Severity.WARNING,
    doc=__doc__,
    safety="safe",
)

_HOMES = {
    "lightning.Trainer": "lightning.pytorch",
    "lightning.pytorch.Trainer": "lightning.pytorch",
    "pytorch_lightning.Trainer": "pytorch_lightning",
    "lightning.Fabric": "lightning.fabric",
    "lightning.fabric.Fabric": "lightning.fabric",
    "lightning_fabric.Fabric": "lightning_fabric",
}
"""What takes an accelerator: the package that has Lightning's own."""
_GPUS = frozenset({"gpu", "cuda"})
_WORDS = _GPUS | {"auto"}
_OLD = frozenset({"gpus", "tpu_cores", "ipus", "hpus", "num_processes"})
"""Arguments of Lightning 1 that choose devices."""
_MIXED = frozenset({"16-mixed", "bf16-mixed"})
_CLASS = '''class NPUAccelerator(CUDAAccelerator):
    """Lightning has none for NPUs. It chooses the device of a process by the class for CUDA."""

    def setup_device(self, device):
        torch.npu.set_device(device)

    def setup(self, trainer):
        torch.npu.empty_cache()

    def teardown(self):
        torch.npu.empty_cache()

    def get_device_stats(self, device):
        return torch.npu.memory_stats(device)

    @staticmethod
    def parse_devices(devices):
        if isinstance(devices, str):
            devices = [int(part) for part in devices.split(",") if part] if "," in devices else int(devices)
        if isinstance(devices, int):
            return list(range(torch.npu.device_count() if devices == -1 else devices))
        return list(devices)

    @staticmethod
    def get_parallel_devices(devices):
        return [torch.device("npu", index) for index in devices]

    @staticmethod
    def auto_device_count():
        return torch.npu.device_count()

    @staticmethod
    def is_available():
        return torch.npu.is_available()

    @staticmethod
    def name():
        return "npu"'''

_DDP = """# Lightning makes a CUDA stream for a module that has device numbers: one on a single NPU needs none.
DDPStrategy.{method} = lambda self: None"""


def find(context: Context) -> Iterator[Proposal]:
    """Propose the accelerator at each call whose arguments tell that it would use GPUs."""
    if context.options.target != "npu":
        return
    homes: set[str] = set()
    for reference in context.source.references:
        home = _HOMES.get(reference.name)
        if home is None or reference.call is None or not reference.certain or homes - {home}:
            continue  # two classes of one name are one too many
        proposal = _at(context, reference.call, home)
        if proposal is not None:
            homes |= {home} if proposal.replacements else set()
            yield proposal
    for argument in context.source.nodes(cst.Arg):
        span = context.source.span(argument.value)
        if _is_accelerator(argument) and _word(context.source, argument) in _GPUS and not context.covered(span):
            yield Proposal(
                rule=RULE, span=span, confidence="likely",
                message=f"{context.source.code(argument.value)} makes Lightning choose CUDA, and was left.",
                action="Pass accelerator=NPUAccelerator() of `jumar rule JM199` to the Trainer or Fabric.",
            )  # fmt: skip


def _at(context: Context, call: cst.Call, home: str) -> Proposal | None:
    source = context.source
    argument = keyword(call, "accelerator")
    if any(keyword(call, name) is not None for name in _OLD):
        return None
    if argument is None and any(arg.star or arg.keyword is None for arg in call.args):
        return Proposal(
            rule=RULE, span=source.span(call.func), severity=Severity.ADVICE, confidence="likely",
            message="Lightning chooses the device by arguments that are not written out, and was left.",
            action="Where they say gpu, cuda or auto, pass accelerator=NPUAccelerator(), of `jumar rule JM199`.",
        )  # fmt: skip
    if argument is not None and _word(source, argument) not in _WORDS:
        return None
    made = "accelerator=NPUAccelerator()"
    edits = [last_argument(source, call, made) if argument is None else _instead(source, argument, made)]
    requires = ["import torch", f"from {home}.accelerators import CUDAAccelerator", _CLASS]
    if not _is_one(source, keyword(call, "devices")):
        method = "_determine_ddp_device_ids" if home.endswith("fabric") else "determine_ddp_device_ids"
        requires += [f"from {home}.strategies import DDPStrategy", _DDP.format(method=method)]
    precision = keyword(call, "precision")
    if precision is not None and keyword(call, "plugins") is None and _word(source, precision) in _MIXED:
        word = source.code(precision.value)
        edits.append(_instead(source, precision, f"plugins=MixedPrecision({word}, {context.quote}npu{context.quote})"))
        requires.append(f"from {home}.plugins import MixedPrecision")
    return Proposal(
        rule=RULE,
        span=source.span(call.func if argument is None else argument.value),
        message="Lightning takes an accelerator for NPUs, which the file now has.",
        replacements=tuple(edits),
        requires=tuple(requires),
    )


def _is_accelerator(argument: cst.Arg) -> bool:
    return argument.keyword is not None and argument.keyword.value == "accelerator"


def _is_one(source: Source, devices: cst.Arg | None) -> bool:
    """Return whether one device is asked for, so that there is one process."""
    return devices is not None and source.code(devices.value) in {"1", "'1'", '"1"', "[0]"}


def _word(source: Source, argument: cst.Arg) -> str:
    text = literal(source, argument.value)
    return text.body if text is not None and text.num_fields == 0 else ""


def _instead(source: Source, argument: cst.Arg, text: str) -> Replacement:
    """Return the replacement of a keyword argument, its name included."""
    assert argument.keyword is not None
    return Replacement(source.span(argument.keyword)[0], source.outer_span(argument.value)[1], text)
