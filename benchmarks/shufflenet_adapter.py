"""The adapters of the first torch_npu, as the migration guide's ShuffleNetV2 case describes them, fix by fix.

The emulator has one adapter, today's. The case walks through older ones: each fix here is a switch, and with
all of them on the formats are those the case ends with. What a switch does is quoted from the guide's text.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass

from jumar.npu.formats import rules
from jumar.npu.formats.families import Family
from jumar.npu.formats.ledger import ledger
from jumar.npu.formats.names import Format
from jumar.npu.formats.rules import Call, Choice

_BLOCK = 16


@dataclass(frozen=True)
class Adapter:
    """Which fixes the adapter has. All True: the end of the case."""

    concatenates_densely: bool = True
    """Forward 3: the result of a concatenation whose C is not whole blocks is declared NCHW."""
    weights_in_blocks: bool = True
    """Forward 4: weights are kept in the format the convolution reads."""
    depthwise_in_blocks: bool = True
    """Forward 5: the result of a depthwise convolution is declared NC1HWC0."""
    relu_gradient_in_blocks: bool = True
    """Step 8: the gradient is brought to NC1HWC0, rather than the forward's result to NCHW."""
    axpy_in_blocks: bool = True
    """Step 12: an update of like shapes is done in the format the tensors have."""


def _declared(choice: Choice, index: int, wanted: Format) -> Choice:
    declared = tuple(wanted if i == index else item for i, item in enumerate(choice.declared))
    return dataclasses.replace(choice, declared=declared)


def _convolution(adapter: Adapter, call: Call) -> Choice:
    """Results in blocks for float32 too, which today's adapter gives densely; weights read as they are kept."""
    choice = rules._convolution(call)
    weight = call.inputs[1].shape
    depthwise = weight[1] == 1 and weight[0] > 1
    blocked = adapter.depthwise_in_blocks or not depthwise
    choice = _declared(choice, 0, Format.NC1HWC0 if blocked else Format.NCHW)
    if adapter.weights_in_blocks:
        choice = dataclasses.replace(choice, reads=(choice.reads[0], None, *choice.reads[2:]))
    return choice


def _convolution_backward(adapter: Adapter, call: Call) -> Choice:
    choice = rules._convolution_backward(call)
    mask = call.details[0]
    if mask[0]:
        choice = _declared(choice, 0, Format.NC1HWC0)
    if not adapter.weights_in_blocks:
        return choice
    reads = (choice.reads[0], choice.reads[1], None)
    gives = tuple(choice.declared[i] if i == int(mask[0]) else item for i, item in enumerate(choice.gives))
    return dataclasses.replace(choice, reads=reads, gives=gives)


def _concatenation(adapter: Adapter, call: Call) -> Choice:
    """Computed densely where C is not whole blocks; declared in the first argument's format before the fix."""
    choice = rules._concatenation(call)
    first = call.inputs[0].format
    if adapter.concatenates_densely or first is not Format.NC1HWC0:
        return choice
    return _declared(choice, 0, Format.NC1HWC0)


def _following(adapter: Adapter, call: Call) -> Choice:
    if "threshold_backward" in call.operator and len(call.inputs) > 1:
        return _relu_gradient(adapter, call)
    choice = rules._following(call)
    update = call.operator.startswith(("aten::add_", "aten::_foreach_add_"))
    if update and not adapter.axpy_in_blocks:
        return _dense_update(call, choice)
    return choice


def _relu_gradient(adapter: Adapter, call: Call) -> Choice:
    """Inputs (gradient, forward's result). Before the fix both become the first one's format and go back after."""
    choice = rules._following(call)
    if not adapter.relu_gradient_in_blocks or call.inputs[1].format is not Format.NC1HWC0:
        return choice
    reads = (Format.NC1HWC0 if call.inputs[0].format is not Format.NC1HWC0 else None, *choice.reads[1:])
    blocks = (Format.NC1HWC0,)
    return dataclasses.replace(choice, reads=(reads[0], None, *reads[2:]), gives=blocks, declared=blocks)


def _dense_update(call: Call, choice: Choice) -> Choice:
    """An update of a weight whose C is not whole blocks goes to 4D and back."""
    first = call.inputs[0]
    if len(first.shape) != 4 or first.shape[1] % _BLOCK == 0:
        return choice
    reads = tuple(Format.NCHW if len(item.shape) == 4 else None for item in call.inputs)
    return dataclasses.replace(choice, reads=reads, gives=(Format.NCHW,), declared=(Format.FRACTAL_Z,))


@contextlib.contextmanager
def installed(adapter: Adapter) -> Iterator[None]:
    """Give the emulator this adapter within the block."""
    own = {
        Family.CONVOLUTION: _convolution,
        Family.CONVOLUTION_BACKWARD: _convolution_backward,
        Family.CONCATENATION: _concatenation,
        Family.FOLLOWING: _following,
    }
    before = dict(rules._RULES)
    for family, rule in own.items():
        rules._RULES[family] = lambda call, rule=rule: rule(adapter, call)
    ledger._BOOKS.known.clear()
    try:
        yield
    finally:
        rules._RULES.update(before)
        ledger._BOOKS.known.clear()
