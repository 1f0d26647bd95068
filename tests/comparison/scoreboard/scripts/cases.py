"""The planted faults and the healthy pairs of the scripts. `held_out` ones were written first and looked at last."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .adversarial import gan, penalty, replay
from .knobs import Program, Script
from .regimes import accumulation, closures, half, ranks
from .self_supervised import bank, moco, teacher
from .sequences import detection, speech, variational

HELD_OUT = (bank, penalty, replay, detection, closures)
"""Programs of which every fault and pair is held out."""

Line = tuple[Program, str, dict[str, Any], str]

LINES: tuple[Line, ...] = (
    (moco, "normalised along the batch", {"dim": 0}, "normalize"),
    (moco, "decay of the key encoder", {"ema": 0.8}, "ema"),
    (moco, "temperature", {"temperature": 0.07}, "temperature"),
    (moco, "label smoothing", {"smoothing": 0.1}, "loss"),
    (moco, "keys in the wrong columns", {"shift": 8}, "enqueue"),
    (moco, "queue of scaled keys", {"scaled keys": True}, "scaled"),
    (moco, "one view changed late", {"late noise at": 2}, "noise"),
    (teacher, "sharpness of the teacher", {"sharpness": 0.07}, "soft"),
    (teacher, "mean instead of sum", {"mean": True}, "mean"),
    (teacher, "schedule of the moving average", {"base": 0.9}, "ema"),
    (teacher, "momentum of the centre", {"centre": 0.5}, "centre"),
    (gan, "smooth labels", {"ones": 0.9}, "ones"),
    (gan, "weight of a loss", {"weight": 0.5}, "weight"),
    (speech, "softmax over time", {"dim": 1}, "softmax"),
    (speech, "length of a sequence", {"length": 8}, "ctc"),
    (speech, "blank symbol", {"blank": 5}, "ctc"),
    (speech, "clipping", {"norm": 0.05}, "clip"),
    (variational, "gate and value swapped", {"swapped": True}, "swap"),
    (variational, "another gate", {"tanh": True}, "tanh"),
    (variational, "dropout", {"dropout": 0.3}, "drop"),
    (variational, "sum instead of mean", {"reduction": "sum"}, "error"),
    (variational, "schedule of the divergence", {"rise": 0.2}, "rise"),
    (half, "gain", {"gain": 1.05}, "gain"),
    (half, "no unscaling before clipping", {"no unscale": True}, "clip"),
    (half, "clipping", {"norm": 0.2}, "clip"),
    (accumulation, "dropout", {"dropout": 0.2}, ""),
    (accumulation, "divisor", {"divisor": 1}, "divisor"),
    (accumulation, "last micro-batch scaled", {"last": 1.1}, "last"),
    (accumulation, "previous loss", {"memory": 0.25}, "memory"),
    (accumulation, "clipping", {"value": 0.01}, "clip"),
    (bank, "temperature", {"temperature": 0.2}, "temperature"),
    (bank, "wrong column", {"column": 1}, "select"),
    (bank, "momentum of the bank", {"keep": 0.4}, "mix"),
    (bank, "norm of the bank", {"power": 1.0}, "renorm"),
    (penalty, "norm of the slope", {"norm": 1}, "norm"),
    (penalty, "weight of the penalty", {"penalty": 5.0}, "cost"),
    (penalty, "clipped weights", {"clip": 0.1}, "clip"),
    (replay, "reward clipping", {"clip": 0.5}, "clip"),
    (replay, "mean instead of maximum", {"mean": True}, "best"),
    (replay, "discount", {"gamma": 0.99}, "gamma"),
    (replay, "delta", {"delta": 0.5}, "loss"),
    (replay, "clipping", {"norm": 0.02}, "norm"),
    (replay, "baseline", {"baseline": 0.5}, "baseline"),
    (replay, "rate of the target network", {"tau": 0.3}, "sync"),
    (replay, "period of the target network", {"period": 3}, "sync"),
    (replay, "stored rewards", {"stored": 0.5}, "stored"),
    (detection, "epsilon", {"eps": 1e-3}, ""),
    (detection, "scale of boxes", {"scale": 1.1}, "scale"),
    (detection, "other number of boxes", {"top": 20}, "top"),
    (detection, "distance", {"p": 2.0}, "apart"),
    (detection, "threshold", {"near": 0.5}, "near"),
    (detection, "beta of the loss", {"beta": 0.5}, "place"),
    (detection, "gamma", {"gamma": 1.0}, "gamma"),
    (detection, "balance", {"balance": 0.25}, "balance"),
    (closures, "beta of softplus", {"soft": 2.0}, ""),
    (closures, "delta", {"delta": 0.5}, "huber"),
    (closures, "weight of the penalty", {"penalty": 0.02}, "penalty"),
    (closures, "anchor", {"keep": 0.25}, "anchor"),
)
"""Program, name, what the target changes, the mark of the line."""

OF_MODULES = {
    (accumulation, "dropout"): "2",
    (detection, "epsilon"): "1",
    (closures, "beta of softplus"): "1",
}
"""Faults in a module's own argument: the module's path is the answer."""

OPTIMIZERS: tuple[tuple[Program, str, dict[str, Any], str, str], ...] = (
    (moco, "momentum", {"momentum": 0.8}, "step", "momentum"),
    (moco, "learning rate", {"lr": 0.06}, "step", "lr"),
    (teacher, "weight decay", {"decay": 0.0}, "step", "weight_decay"),
    (teacher, "second beta", {"beta": 0.98}, "step", "betas"),
    (gan, "second optimizer's beta", {"make beta": 0.9}, "make step", "betas"),
    (gan, "first optimizer's beta", {"judge beta": 0.9}, "judge step", "betas"),
    (gan, "first optimizer's learning rate", {"judge lr": 1e-3}, "judge step", "lr"),
    (gan, "first optimizer's epsilon", {"eps": 1e-3}, "judge step", "eps"),
    (speech, "weight decay", {"decay": 0.1}, "step", "weight_decay"),
    (variational, "no schedule", {"no schedule": True}, "step", "lr"),
    (variational, "warm-up", {"warm": 2}, "step", "lr"),
    (half, "weight decay", {"decay": 0.1}, "step", "weight_decay"),
    (accumulation, "no schedule", {"no schedule": True}, "step", "lr"),
    (accumulation, "momentum decay", {"momentum decay": 0.1}, "step", "momentum_decay"),
    (bank, "epsilon", {"eps": 1e-3}, "step", "eps"),
    (penalty, "generator's alpha", {"alpha": 0.9}, "make step", "alpha"),
    (penalty, "critic's alpha", {"critic alpha": 0.9}, "critic step", "alpha"),
    (replay, "learning rate", {"lr": 2e-3}, "step", "lr"),
    (replay, "amsgrad", {"amsgrad": True}, "step", "amsgrad"),
    (detection, "second group's learning rate", {"head lr": 0.03}, "step", "lr"),
    (detection, "nesterov", {"nesterov": True}, "step", "nesterov"),
    (closures, "learning rate", {"lr": 0.4}, "step", "lr"),
    (closures, "history", {"history": 1}, "step", "history_size"),
)

RANKS: tuple[tuple[str, dict[str, Any], str, str], ...] = (
    ("scaled centre of rank 1", {"centre": 1.1}, "centre", "line"),
    ("label smoothing of rank 1", {"smoothing": 0.1}, "loss", "line"),
    ("weight of rank 1's loss", {"weight": 0.5}, "weight", "line"),
    ("beta of rank 1", {"beta": 0.9}, "step", "optimizer"),
    ("shard of rank 1", {"shard": 0}, "shard", "line"),
    ("seed of rank 1", {"seed of rank 1": 1}, "", "parameters"),
    ("gradients not reduced on rank 1", {"skips": True}, "", "ranks"),
)


def faults() -> Iterator[Script]:
    """Yield the planted faults."""
    for program, name, knobs, mark in LINES:
        marks = (mark,) if mark else (f"module {OF_MODULES[program, name]}",)
        yield _script(name, program, knobs=knobs, marks=marks)
    for program, name, knobs, mark, argument in OPTIMIZERS:
        yield _script(name, program, knobs=knobs, marks=(mark,), argument=argument, cause="optimizer")
    for name, knobs, mark, cause in RANKS:
        yield _script(name, ranks, knobs=knobs, marks=(mark,), cause=cause, rank=1)
    yield _script("not divided by the ranks", ranks, knobs={"world": 1}, marks=("divide",))
    yield _script("other data", moco, knobs={"data": 2}, cause="data")
    yield _script("other seed", moco, knobs={"seed": 2}, cause="parameters")
    yield _script("61 rows for 64", variational, knobs={"rows": 61}, marks=("rows",))
    yield _script("other seed of the draws", variational, knobs={"late seed": 12}, cause="random")
    yield _script("one draw more", variational, knobs={"extra draw at": 1}, cause="random")
    yield _script("other seed of Python", bank, knobs={"python seed": 6}, cause="data")
    yield _script("other seed of Python", replay, knobs={"python seed": 2}, cause="data")
    yield _script("rows of a batch flipped", bank, knobs={"other order": True}, cause="data")


PROGRAMS: tuple[Program, ...] = (
    moco, teacher, gan, speech, variational, half, accumulation, bank, penalty, replay, detection, closures,
)  # fmt: skip


def healthy() -> Iterator[Script]:
    """Yield pairs in which nothing is wrong."""
    for program in PROGRAMS:
        yield _script("again", program, cause="agree", target={})
        yield _script("other kernels", program, cause="agree", target={"mkldnn": False})
        yield _script("emulated NPU, strict", program, cause="agree", target={"device": "npu"})
    yield _script("again", ranks, cause="agree")
    for kind in ("LSTM", "RNN"):
        pair = {"mkldnn": False}
        yield _script(f"{kind}: other kernels", speech, cause="agree", both={"kind": kind}, target=pair)
        yield _script(f"{kind}: NPU", speech, cause="agree", both={"kind": kind}, target={"device": "npu"})
    for cell in ("GRUCell", "LSTMCell", "RNNCell"):
        yield _script(f"{cell}: NPU", speech, cause="agree", both={"cell": cell}, target={"device": "npu"})
    yield _script("other loss scale", half, cause="agree", knobs={"scale": 256.0})
    yield _script("bfloat16: NPU", half, cause="agree", both={"dtype": "bfloat16"}, target={"device": "npu"})
    yield _script("dropout: NPU", teacher, cause="agree", both={"dropout": 0.1}, target={"device": "npu"})


def _script(name: str, program: Program, **fields: Any) -> Script:
    return Script(name=name, program=program, held_out=program in HELD_OUT, **fields)


def all_scripts() -> Iterator[Script]:
    """Yield the faults, then the healthy pairs."""
    yield from faults()
    yield from healthy()
