"""Estimate the steps of the migration guide's ShuffleNetV2 case and compare them with its tables.

    python benchmarks/shufflenet.py            # prints the tables, writes benchmarks/shufflenet.json

The guide (document 004) improves ShuffleNetV2 x1.0 on an Ascend 910A in 5 steps of the forward pass and 15 of
the training step. Each is run here on the emulated 910A: the network of that step, as its text and code
describe it, with the adapter of that time (`shufflenet_adapter`). The network runs once at batch 11 and
224 x 224; in the shapes recorded the 11, which no other dimension is, becomes the guide's batch size.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from shufflenet_adapter import Adapter, installed
from torch import nn

from jumar.device import DevicePlan, activate
from jumar.soc.estimate import OperatorShape, Software, TensorShape, Timeline, operator_cost, software
from jumar.soc.profiles import get_soc

RUN_BATCH = 11
SOC = "Ascend910A"
PROFILE = get_soc(SOC)
STAGES = ((4, 116), (8, 232), (4, 464))


# ---- the network -----------------------------------------------------------------------------------------------


def interleave(channels: int, groups: int = 2) -> list[int]:
    """Return the order that a channel shuffle puts the channels in."""
    return torch.arange(channels).view(groups, -1).t().flatten().tolist()


def shuffle_by_transpose(x: torch.Tensor) -> torch.Tensor:
    batch, channels, height, width = x.shape
    return x.view(batch, 2, channels // 2, height, width).transpose(1, 2).contiguous().view(batch, -1, height, width)


class Gathered(torch.autograd.Function):
    """The shuffled channels, whole or as two halves, by gathers; so is the backward, which is index_add by default."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, back: torch.Tensor, *indices: torch.Tensor) -> Any:
        ctx.back, ctx.num = back, len(indices)
        picked = tuple(x.index_select(1, index) for index in indices)
        return picked if len(picked) > 1 else picked[0]

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        gradient = torch.cat(gradients, 1) if len(gradients) > 1 else gradients[0]
        return gradient.index_select(1, ctx.back), None, *(None for _ in range(ctx.num))


class CatGathered(torch.autograd.Function):
    """Concatenation, shuffle and chunk in one: the backward of each input is one gather."""

    @staticmethod
    def forward(ctx: Any, x1: torch.Tensor, x2: torch.Tensor, *indices: torch.Tensor) -> Any:
        ctx.indices, ctx.whole = indices[-2:], len(indices) == 3
        ctx.casts, ctx.syncs = OPTIONS.casts_gradient, OPTIONS.synchronises
        synchronise(ctx.syncs and ctx.whole)
        x = torch.cat([x1, x2], 1)
        picked = tuple(x.index_select(1, index) for index in indices[:-2])
        return picked[0] if ctx.whole else picked

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        synchronise(ctx.syncs and ctx.whole)
        gradient = gradients[0] if ctx.whole else torch.cat(gradients, 1)
        if ctx.casts and ctx.whole:
            gradient = torch.ops.npu.npu_format_cast(gradient, 0)
        out = tuple(gradient.index_select(1, index) for index in ctx.indices)
        return (*out, *(None for _ in range(3 if ctx.whole else 4)))


class Shuffle(nn.Module):
    """Joins two branches and shuffles; `halves` gives the two inputs of the next block."""

    def __init__(self, channels: int, kind: str, halves: bool) -> None:
        super().__init__()
        order = interleave(channels)
        self.kind, self.halves, half = kind, halves, channels // 2
        self.order = order
        back = [order.index(i) for i in range(channels)]
        buffers = {"whole": order, "first": order[:half], "second": order[half:], "back": back}
        buffers |= {"back1": list(range(0, channels, 2)), "back2": list(range(1, channels, 2))}
        if kind == "cat_gather":
            buffers["back1"], buffers["back2"] = back[:half], back[half:]
        for name, index in buffers.items():
            self.register_buffer(name, torch.tensor(index, dtype=torch.int32))

    def forward(self, x1: torch.Tensor, x2: torch.Tensor) -> Any:
        if self.kind == "cat_gather":
            picked = (self.first, self.second) if self.halves else (self.whole,)
            return CatGathered.apply(x1, x2, *picked, self.back1, self.back2)
        x = torch.cat((x1, x2), dim=1)
        if self.kind == "transpose":
            return self._chunk(shuffle_by_transpose(x))
        if self.kind == "index_made_here":
            return self._chunk(x.index_select(1, torch.tensor(self.order).to(x.device)))
        if self.kind == "index":
            return self._chunk(x.index_select(1, self.whole))
        picked = (self.first, self.second) if self.halves else (self.whole,)
        if self.kind == "gather":
            return Gathered.apply(x, self.back, *picked)
        halves = tuple(x.index_select(1, index) for index in picked)
        return halves if self.halves else halves[0]

    def _chunk(self, x: torch.Tensor) -> Any:
        return x.chunk(2, dim=1) if self.halves else x


def convolution(inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)


def unit(inputs: int, outputs: int, kernel: int, stride: int = 1, *, depthwise: bool = False) -> list[nn.Module]:
    layers: list[nn.Module] = [convolution(inputs, outputs, kernel, stride, inputs if depthwise else 1)]
    layers.append(nn.BatchNorm2d(outputs))
    return layers if depthwise else [*layers, nn.ReLU(inplace=True)]


class Block(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int, kind: str, halves: bool) -> None:
        super().__init__()
        half, self.stride = outputs // 2, stride
        self.branch1 = nn.Sequential(*unit(inputs, inputs, 3, stride, depthwise=True), *unit(inputs, half, 1))
        start = inputs if stride > 1 else half
        self.branch2 = nn.Sequential(
            *unit(start, half, 1), *unit(half, half, 3, stride, depthwise=True), *unit(half, half, 1)
        )
        if stride == 1:
            self.branch1 = nn.Sequential()
        self.shuffle = Shuffle(outputs, kind, halves)

    def forward(self, x: Any) -> Any:
        x1, x2 = (x, x) if self.stride > 1 else x
        return self.shuffle(self.branch1(x1), self.branch2(x2))


class ShuffleNetV2(nn.Module):
    """x1.0. A block gives halves where the next one of its stage takes them."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.stem = nn.Sequential(*unit(3, 24, 3, 2), nn.MaxPool2d(3, 2, 1))
        blocks, inputs = [], 24
        for repeats, outputs in STAGES:
            for index in range(repeats):
                last = index == repeats - 1
                blocks.append(Block(inputs, outputs, 2 if index == 0 else 1, kind, not last))
                inputs = outputs
        self.blocks = nn.ModuleList(blocks)
        self.head = nn.Sequential(*unit(464, 1024, 1))
        self.classifier = nn.Linear(1024, 1000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return self.classifier(self.head(x).mean([2, 3]))


# ---- the steps of the case -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Step:
    """One row of the guide's tables. `milliseconds` is what the guide measured after this change."""

    number: int
    change: str
    batch: int
    milliseconds: float
    shuffle: str
    adapter: Adapter
    software: Software
    amp: str = ""
    casts_gradient: bool = True
    synchronises: bool = False


OLD = replace(software(PROFILE), strided_copy="AI_CPU", scatter_add="AI_CPU", unaligned_gather="scalar")
GATHERED = replace(OLD, strided_copy="GATHER")
ALIGNED = replace(GATHERED, unaligned_gather="vector")
NEWEST = replace(ALIGNED, gathers_waste_bursts=False)
BEFORE = Adapter(False, False, False, False, False)
BEFORE_RELU = Adapter(relu_gradient_in_blocks=False, axpy_in_blocks=False)
BEFORE_AXPY = Adapter(axpy_in_blocks=False)

FORWARD = (
    Step(1, "shuffle by index_select", 512, 1100, "index", BEFORE, OLD),
    Step(2, "two index_select instead of chunk", 512, 600, "two_indices", BEFORE, OLD),
    Step(3, "concatenation gives NCHW", 512, 300, "two_indices", replace(BEFORE, concatenates_densely=True), OLD),
    Step(4, "weights keep their format", 512, 285, "two_indices",
         replace(BEFORE, concatenates_densely=True, weights_in_blocks=True), OLD),
    Step(5, "depthwise convolution gives NC1HWC0", 512, 275, "two_indices", BEFORE_RELU, OLD),
)  # fmt: skip

TRAINING = (
    Step(1, "index_add instead of index to the host", 512, 5500, "index_made_here", BEFORE_RELU, OLD, "", False, True),
    Step(2, "index made once", 512, 4000, "index", BEFORE_RELU, OLD, "", False, True),
    Step(3, "index_add and chunk in one", 512, 1800, "gather", BEFORE_RELU, OLD, "", False, True),
    Step(4, "contiguous by GatherV2", 512, 885, "gather", BEFORE_RELU, GATHERED, "", False, True),
    Step(5, "step 3 at batch 1024", 1024, 3480, "gather", BEFORE_RELU, OLD, "", False, True),
    Step(6, "step 4 at batch 1024", 1024, 1650, "gather", BEFORE_RELU, GATHERED, "", False, True),
    Step(7, "cat, shuffle and chunk in one", 1024, 1424, "cat_gather", BEFORE_RELU, GATHERED, "", False, True),
    Step(8, "format of ReluGrad's gradient", 1024, 1360, "cat_gather", BEFORE_AXPY, GATHERED, "", False, True),
    Step(9, "gradient cast once for two gathers", 1024, 1300, "cat_gather", BEFORE_AXPY, GATHERED, "", True, True),
    Step(10, "amp O1", 1024, 920, "cat_gather", BEFORE_AXPY, GATHERED, "O1", True, True),
    Step(11, "amp O2", 1024, 860, "cat_gather", BEFORE_AXPY, GATHERED, "O2", True, True),
    Step(12, "no conversions in the update", 1024, 830, "cat_gather", Adapter(), GATHERED, "O2", True, True),
    Step(13, "no stream synchronisation", 1024, 800, "cat_gather", Adapter(), GATHERED, "O2", True, False),
    Step(14, "GatherV2 for rows of any length", 1024, 461, "cat_gather", Adapter(), ALIGNED, "O2", True, False),
    Step(15, "GatherV3", 1024, 429, "cat_gather", Adapter(), NEWEST, "O2", True, False),
)
OPTIONS = TRAINING[0]


# ---- running and estimating ------------------------------------------------------------------------------------


@dataclass
class Recorder:
    """Operators and synchronisations in order."""

    entries: list[OperatorShape | None] = field(default_factory=list)
    on: bool = False

    def add(self, execution: Any) -> None:
        from jumar.npu.profiler.collect.executions import operator_shape

        self.entries.append(operator_shape(execution))


RECORDER = Recorder()


def synchronise(wanted: bool) -> None:
    """What `stream.synchronize()` is to the estimate; the emulator's own returns at once."""
    if wanted and RECORDER.on:
        RECORDER.entries.append(None)


def build(step: Step) -> nn.Module:
    torch.manual_seed(0)
    model = ShuffleNetV2(step.shuffle).npu()
    if step.amp == "O2":
        model.half()
        for module in model.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.float()
    if step.adapter.weights_in_blocks:
        for module in model.modules():
            if isinstance(module, nn.Conv2d):
                module.weight.data = torch.ops.npu.npu_format_cast(module.weight.data, 4)
    return model


def training_step(model: nn.Module, step: Step) -> Callable[[], None]:
    """Return one training step. O2 keeps float32 copies of the half weights and updates those, as apex does."""
    images = torch.randn(RUN_BATCH, 3, 224, 224)
    labels = torch.randint(0, 1000, (RUN_BATCH,))
    masters = [parameter.detach().float().requires_grad_() for parameter in model.parameters()]
    trained = masters if step.amp == "O2" else list(model.parameters())
    optimizer = torch.optim.SGD(trained, lr=0.1, momentum=0.9, weight_decay=4e-5, foreach=False)
    scaler = torch.npu.amp.GradScaler(enabled=bool(step.amp))
    for master in masters if step.amp == "O2" else ():
        master.grad = torch.zeros_like(master)

    def run() -> None:
        batch, target = images.npu(non_blocking=True), labels.to(torch.int32).npu(non_blocking=True)
        batch = batch.half() if step.amp == "O2" else batch
        with torch.npu.amp.autocast(enabled=step.amp == "O1"):
            loss = nn.functional.cross_entropy(model(batch).float(), target.long())
        synchronise(step.synchronises)
        model.zero_grad()
        scaler.scale(loss).backward()
        synchronise(step.synchronises)
        if step.amp == "O2":
            torch._foreach_copy_([master.grad for master in masters], [one.grad for one in model.parameters()])
        scaler.step(optimizer)
        scaler.update()
        if step.amp == "O2":
            torch._foreach_copy_([parameter.data for parameter in model.parameters()], masters)
        synchronise(step.synchronises)

    return run


def forward_pass(model: nn.Module, _: Step) -> Callable[[], None]:
    images = torch.randn(RUN_BATCH, 3, 224, 224)

    def run() -> None:
        with torch.no_grad():
            model(images.npu(non_blocking=True))

    return run


def record(step: Step, make: Callable[[nn.Module, Step], Callable[[], None]]) -> list[OperatorShape | None]:
    """Return what the second run of this step asks of the device."""
    global OPTIONS  # noqa: PLW0603 - autograd functions take no options
    from jumar.npu.formats.ledger import ledger

    OPTIONS = step
    with installed(step.adapter):
        run = make(build(step), step)
        run()
        RECORDER.entries, RECORDER.on = [], True
        with ledger.follow(RECORDER.add):
            run()
        RECORDER.on = False
    return RECORDER.entries


def at_batch(shape: OperatorShape, batch: int) -> OperatorShape:
    """Return the call with the batch size in the place of the one it ran with."""

    def sizes(found: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(batch if size == RUN_BATCH else size for size in found)

    def tensor(found: TensorShape) -> TensorShape:
        return replace(found, shape=sizes(found.shape))

    moved = any(RUN_BATCH in item.shape for item in (*shape.inputs, *shape.outputs))
    return replace(
        shape,
        inputs=tuple(map(tensor, shape.inputs)),
        outputs=tuple(map(tensor, shape.outputs)),
        conversions=tuple(replace(item, shape=sizes(item.shape)) for item in shape.conversions),
        transfer_bytes=shape.transfer_bytes * batch // RUN_BATCH if moved else shape.transfer_bytes,
    )


def software_for(step: Step, entry: OperatorShape) -> Software:
    """Return what runs this operator: apex copies the gradients and weights of O2 in one kernel each."""
    if entry.name.startswith("aten::_foreach_copy_"):
        return replace(step.software, is_aclnn=True)
    return step.software


def estimate(step: Step, entries: list[OperatorShape | None]) -> dict[str, Any]:
    timeline = Timeline(step.software.prices)
    timeline.step("1")
    roles: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    for entry in entries:
        if entry is None:
            timeline.synchronise()
            continue
        cost = operator_cost(at_batch(entry, step.batch), PROFILE, software_for(step, entry))
        timeline.issue(cost)
        roles["copies between host and device"] += cost.transfer_us
        for kernel in cost.kernels:
            roles[kernel.role] += kernel.duration_us
            kinds[f"{kernel.type} ({kernel.core})"] += kernel.duration_us
    times = timeline.steps()[0]
    return {
        "step": step.number,
        "change": step.change,
        "batch": step.batch,
        "measured_by_the_guide_ms": step.milliseconds,
        "estimated_ms": round(times.duration_us / 1e3, 3),
        "host_ms": round(times.host_us / 1e3, 1),
        "num_operators": sum(entry is not None for entry in entries),
        "ms_by_reason": {name: round(time / 1e3, 1) for name, time in roles.most_common()},
        "ms_by_kernel": {name: round(time / 1e3, 1) for name, time in kinds.most_common(8)},
    }


def verdict(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Compare the order of the steps of each batch size, and which change saves most."""
    found = []
    for batch in sorted({row["batch"] for row in rows}):
        own = [row for row in rows if row["batch"] == batch]
        saved = {
            source: [before[source] - after[source] for before, after in itertools.pairwise(own)]
            for source in ("measured_by_the_guide_ms", "estimated_ms")
        }
        numbers = [row["step"] for row in own[1:]]
        orders = {
            source: [number for _, number in sorted(zip(values, numbers, strict=True), reverse=True)]
            for source, values in saved.items()
        }
        found.append(
            {
                "batch": batch,
                "every_step_is_faster": all(value > 0 for value in saved["estimated_ms"]),
                "steps_by_saving_measured": orders["measured_by_the_guide_ms"],
                "steps_by_saving_estimated": orders["estimated_ms"],
                "same_step_saves_most": orders["measured_by_the_guide_ms"][0] == orders["estimated_ms"][0],
            }
        )
    return {"by_batch": found}


def main() -> None:
    torch.set_num_threads(1)
    activate(DevicePlan(real="never", soc=SOC, numerics="exact", unsupported="fallback"))
    result: dict[str, Any] = {
        "what": "estimated by jumar.soc.estimate, compared with the tables of document 004; nothing was measured",
        "soc": SOC,
        "torch": torch.__version__,
        "run_batch": RUN_BATCH,
    }
    for name, steps, make in (("forward", FORWARD, forward_pass), ("training", TRAINING, training_step)):
        cache: dict[Any, list[OperatorShape | None]] = {}
        rows = []
        for step in steps:
            key = (step.shuffle, step.adapter, step.amp, step.casts_gradient, step.synchronises)
            if key not in cache:
                cache[key] = record(step, make)
            rows.append(estimate(step, cache[key]))
            row = rows[-1]
            print(f"{name:9s} {row['step']:2d} {row['change']:40s} {row['measured_by_the_guide_ms']:7.0f} "
                  f"{row['estimated_ms']:8.1f} {row['ms_by_reason']}", flush=True)  # fmt: skip
        result[name] = {"steps": rows, "verdict": verdict(rows)}
        print(json.dumps(result[name]["verdict"], indent=1))
    path = Path(__file__).with_suffix(".json")
    path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
