"""The cases of the scoreboard: faults on every model where they make sense, and healthy pairs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch

from . import faults
from .faults import Case, Truth

TEXT = ("gpt", "seq2seq", "recurrent")
ALL = ("cnn", *TEXT)

BLOCK = {"gpt": "blocks.1", "seq2seq": "decoder.0", "cnn": "", "recurrent": ""}
HIDDEN = {"gpt": "blocks.1.mlp", "seq2seq": "decoder.0.mlp", "cnn": "", "recurrent": ""}
ACT = {"gpt": "blocks.1.mlp.act", "seq2seq": "decoder.0.mlp.act", "cnn": "act", "recurrent": "act"}


def _case(name: str, model: str, fault: str, truth: Truth, **settings: Any) -> Case:
    both = tuple(sorted(settings.items()))
    return Case(name=name, model=model, truth=truth, reference=both, target=(*both, ("fault", fault)))


def in_the_model() -> Iterator[Case]:
    """Yield mistakes in the source of the model."""
    for model in ALL:
        where = HIDDEN[model]
        yield _case("GELU variant", model, "wrong GELU", Truth(operators=("aten::gelu",), path=ACT[model]))
        yield _case("extra scale", model, "extra scale", Truth(operators=("aten::mul.Tensor",), path=where))
        yield _case("flipped sequence", model, "flipped sequence", Truth(operators=("aten::flip",), path=where))
        yield _case("rolled sequence", model, "rolled sequence", Truth(operators=("aten::roll",), path=where))
        yield _case("epsilon", model, "wrong epsilon", _of_norm(model))
        yield _case(
            "float16 overflow in one block",
            model,
            "float16 overflow in one block",
            Truth(operators=("aten::mul.Tensor",), path=where),
        )
        drop = {"cnn": "drop", "recurrent": "drop"}.get(model, f"{where}.drop")
        yield _case(
            "dropout without scaling",
            model,
            "dropout without scaling",
            Truth(operators=("aten::div.Tensor",), path=drop),
            dropout=0.1,
        )
    for model in TEXT:
        path = {"recurrent": ""}.get(model, f"{BLOCK[model]}.attention")
        yield _case(
            "transposed weight",
            model,
            "transposed weight",
            Truth(
                operators=("aten::t", "aten::addmm"),
                path=(path, f"{path}.proj".lstrip("."), f"{path}.middle".lstrip(".")),
            ),
        )
    for model in ("gpt", "seq2seq"):
        attention = f"{BLOCK[model]}.attention"
        yield _case("softmax axis", model, "wrong softmax axis", Truth(operators=("aten::_softmax",), path=attention))
        yield _case(
            "causal mask", model, "wrong causal mask", Truth(operators=("aten::tril",), path=attention, occurrence=0)
        )
        yield _case(
            "index off by one",
            model,
            "index off by one",
            Truth(operators=("aten::arange.start", "aten::arange"), path="embedded", occurrence=0),
        )
        backward = ("aten::mul.Tensor", "aten::div.Tensor", "aten::add.Tensor")
        case = _case(
            "wrong autograd function",
            model,
            "wrong autograd function",
            Truth(operators=backward, path=HIDDEN[model], phase="backward"),
        )
        yield Case(**{**vars(case), "reference": (("fault", "hand-written GELU"),)})
    yield _case("other padding", "seq2seq", "other padding", Truth(operators=("aten::eq.Scalar",)))
    yield _case(
        "other padding", "cnn", "other padding", Truth(operators=("aten::reflection_pad2d", "aten::constant_pad_nd"))
    )
    yield _case(
        "padding on the other side",
        "cnn",
        "padding on the other side",
        Truth(operators=("aten::constant_pad_nd",), occurrence=2),
    )
    yield _case("stale statistics: momentum", "cnn", "stale statistics", _of_norm("cnn"))
    yield Case(
        name="stale statistics: eval",
        model="cnn",
        target=(("eval_norm", True),),
        truth=Truth(operators=("aten::native_batch_norm",), path="layer1.1"),
    )


def _of_norm(model: str) -> Truth:
    if model == "cnn":
        return Truth(operators=("aten::native_batch_norm",), path="layer1.1")
    path = "norm" if model == "recurrent" else f"{BLOCK[model]}.ln1"
    return Truth(operators=("aten::native_layer_norm",), path=path)


FORWARD: dict[str, tuple[tuple[str, Any, str], ...]] = {
    "cnn": (
        ("tail of a kernel", faults.wrong_tail, "aten::convolution"),
        ("one tile of a kernel", faults.wrong_tile, "aten::convolution"),
        ("NaN from one operator", faults.not_a_number, "aten::gelu"),
        ("float16 overflow in a kernel", faults.overflowing, "aten::convolution"),
        ("elements in other places", faults.in_another_order, "aten::convolution"),
        ("products in TF32", faults.rounded_inputs, "aten::convolution"),
        ("stale statistics: kernel", faults.without_update, "aten::native_batch_norm"),
        ("scaled result", faults.scaled(1.01, 0), "aten::native_batch_norm"),
    ),
    "gpt": (
        ("tail of a kernel", faults.wrong_tail, "aten::addmm"),
        ("one tile of a kernel", faults.wrong_tile, "aten::bmm"),
        ("NaN from one operator", faults.not_a_number, "aten::_softmax"),
        ("float16 overflow in a kernel", faults.overflowing, "aten::bmm"),
        ("elements in other places", faults.in_another_order, "aten::bmm"),
        ("sums in bfloat16", faults.summed_in(torch.bfloat16), "aten::addmm"),
        ("sums in float16", faults.summed_in(torch.float16), "aten::bmm"),
        ("products in TF32", faults.rounded_inputs, "aten::addmm"),
        ("index off by one in a kernel", faults.next_row, "aten::embedding"),
        ("scaled result", faults.scaled(1.001, 0), "aten::native_layer_norm"),
    ),
    "seq2seq": (
        ("tail of a kernel", faults.wrong_tail, "aten::_softmax"),
        ("one tile of a kernel", faults.wrong_tile, "aten::addmm"),
        ("NaN from one operator", faults.not_a_number, "aten::bmm"),
        ("float16 overflow in a kernel", faults.overflowing, "aten::addmm"),
        ("elements in other places", faults.in_another_order, "aten::addmm"),
        ("sums in bfloat16", faults.summed_in(torch.bfloat16), "aten::bmm"),
        ("sums in float16", faults.summed_in(torch.float16), "aten::addmm"),
        ("products in TF32", faults.rounded_inputs, "aten::bmm"),
        ("index off by one in a kernel", faults.next_row, "aten::embedding"),
        ("scaled result", faults.scaled(1.001, 0), "aten::gelu"),
    ),
    "recurrent": (
        ("tail of a kernel", faults.wrong_tail, "aten::addmm"),
        ("NaN from one operator", faults.not_a_number, "aten::mkldnn_rnn_layer"),
        ("elements in other places", faults.in_another_order, "aten::addmm"),
        ("sums in bfloat16", faults.summed_in(torch.bfloat16), "aten::addmm"),
        ("products in TF32", faults.rounded_inputs, "aten::addmm"),
        ("index off by one in a kernel", faults.next_row, "aten::embedding"),
        ("scaled result", faults.scaled(1.001, 0), "aten::mkldnn_rnn_layer"),
    ),
}

BACKWARD: dict[str, tuple[tuple[str, Any, str], ...]] = {
    "cnn": (
        ("backward: activation", faults.scaled(1.01), "aten::gelu_backward"),
        ("backward: weight", faults.scaled(1.01, 1), "aten::convolution_backward"),
        ("backward: input", faults.scaled(1.01, 0), "aten::convolution_backward"),
        ("backward: norm's weight", faults.scaled(1.02, 1), "aten::native_batch_norm_backward"),
        ("backward: selection", faults.scaled(1.02), "aten::max_pool2d_with_indices_backward"),
        ("backward: selection", faults.scaled(1.02), "aten::threshold_backward"),
    ),
    "gpt": (
        ("backward: activation", faults.scaled(1.01), "aten::gelu_backward"),
        ("backward: product", faults.scaled(1.01), "aten::mm"),
        ("backward: norm's weight", faults.scaled(1.02, 1), "aten::native_layer_norm_backward"),
        ("backward: softmax", faults.scaled(1.01), "aten::_softmax_backward_data"),
        ("backward: embedding", faults.next_gradient_row, "aten::embedding_dense_backward"),
        ("backward: elements in other places", faults.in_another_order, "aten::mm"),
        ("backward: bias", faults.scaled(1.02), "aten::sum.dim_IntList"),
    ),
    "seq2seq": (
        ("backward: activation", faults.scaled(1.01), "aten::gelu_backward"),
        ("backward: product", faults.wrong_tail, "aten::mm"),
        ("backward: norm's input", faults.scaled(1.01, 0), "aten::native_layer_norm_backward"),
        ("backward: softmax", faults.scaled(1.01), "aten::_softmax_backward_data"),
        ("backward: loss", faults.scaled(1.01), "aten::nll_loss_backward"),
    ),
    "recurrent": (
        ("backward: activation", faults.scaled(1.01), "aten::gelu_backward"),
        ("backward: product", faults.scaled(1.01), "aten::mm"),
        ("backward: gate", faults.scaled(1.01), "aten::tanh_backward"),
        ("backward: norm's weight", faults.scaled(1.02, 1), "aten::native_layer_norm_backward"),
    ),
}


def in_a_kernel() -> Iterator[Case]:
    """Yield kernels of a device that compute something else."""
    for phase, table in (("forward", FORWARD), ("backward", BACKWARD)):
        for model, entries in table.items():
            for name, kernel, operator in entries:
                yield Case(name=name, model=model, operator=operator, kernel=kernel, phase=phase)


LATER: dict[str, tuple[tuple[Any, str, str], ...]] = {
    "cnn": (
        (faults.wrong_tail, "aten::convolution", "forward"),
        (faults.scaled(1.01), "aten::gelu_backward", "backward"),
    ),
    "gpt": ((faults.wrong_tail, "aten::addmm", "forward"), (faults.scaled(1.01), "aten::mm", "backward")),
    "seq2seq": ((faults.wrong_tile, "aten::bmm", "forward"), (faults.scaled(1.01), "aten::gelu_backward", "backward")),
    "recurrent": (
        (faults.wrong_tail, "aten::addmm", "forward"),
        (faults.scaled(1.01), "aten::tanh_backward", "backward"),
    ),
}


def in_a_later_step() -> Iterator[Case]:
    """Yield kernels that are right at first: from the third step on they are not. Below other kernels, too, where the
    runs have drifted apart by then."""
    steps = (("num_steps", 4),)
    for model, entries in LATER.items():
        for kernel, operator, phase in entries:
            for name, drift in (("", ()), (", other thread count", (("threads", 2),))):
                yield Case(
                    name=f"from the third step{name}",
                    model=model,
                    operator=operator,
                    kernel=kernel,
                    phase=phase,
                    from_step=2,
                    reference=steps,
                    target=(*steps, *drift),
                )


def through_modules() -> Iterator[Case]:
    """Yield faults in runs that were recorded without their operators: the module is to be named."""
    levels = (("levels", ("module",)),)
    for model in ALL:
        for name, fault, path in (
            ("GELU variant", "wrong GELU", ACT[model]),
            ("epsilon", "wrong epsilon", _of_norm(model).path),
        ):
            yield Case(
                name=f"modules only: {name}",
                model=model,
                reference=levels,
                target=(*levels, ("fault", fault)),
                truth=Truth(path=path),
            )
        for kernel, operator, phase in LATER[model]:
            yield Case(
                name=f"modules only: {phase}",
                model=model,
                operator=operator,
                kernel=kernel,
                phase=phase,
                reference=levels,
                target=levels,
            )


def around_the_model() -> Iterator[Case]:
    """Yield faults of the optimizer, the data and the start."""
    # either the optimizer, or its operator that is called with the other number
    adam = Truth(operators=("AdamW", "aten::add_.Tensor", "aten::addcmul_"), path="", phase="optimizer")
    for model in ALL:
        yield Case(
            name="optimizer with another epsilon",
            model=model,
            target=(("hyper", (("lr", 1e-3), ("eps", 1e-6))),),
            truth=adam,
        )
        yield Case(
            name="optimizer with another beta",
            model=model,
            target=(("hyper", (("lr", 1e-3), ("betas", (0.9, 0.95)))),),
            truth=replace(adam, step=1),  # the first update does not depend on it
        )
        yield Case(name="data in another order", model=model, target=(("swapped", True),), truth=Truth(code="JM302"))
        yield Case(name="other initial weights", model=model, target=(("seed", 1000),), truth=Truth(code="JM303"))
        yield Case(
            name="other random numbers",
            model=model,
            reference=(("dropout", 0.1),),
            target=(("dropout", 0.1), ("extra_draw", True)),
            truth=Truth(code="JM307"),
        )
    momentum = (("optimizer", "SGD"), ("hyper", (("lr", 1e-2), ("momentum", 0.9))))
    yield Case(
        name="optimizer with another momentum",
        model="cnn",
        reference=momentum,
        target=(("optimizer", "SGD"), ("hyper", (("lr", 1e-2), ("momentum", 0.8)))),
        truth=Truth(operators=("SGD", "aten::mul_.Tensor"), path="", phase="optimizer", step=1),
    )


def over_ranks() -> Iterator[Case]:
    """Yield faults in what two ranks do together."""
    model = "gpt, two ranks"
    reduction = Truth(operators=("c10d::allreduce_", "aten::div_.Tensor"))
    yield Case(name="all-reduce left out", model=model, target=(("fault", "dropped"),), truth=reduction)
    yield Case(
        name="all-reduce without effect",
        model=model,
        target=(("fault", "ignored"),),
        truth=Truth(operators=("c10d::allreduce_",)),
    )


def healthy() -> Iterator[Case]:
    """Yield pairs in which nothing is wrong."""
    everywhere = {
        "other thread count": {"threads": 2},
        "other kernels": {"mkldnn": False},
        "bfloat16 autocast": {"autocast": "bfloat16"},
        "bfloat16 model": {"dtype": "bfloat16"},
        "float16 autocast with GradScaler": {"autocast": "float16", "scaler": True, "mkldnn": False},
        "emulated NPU, exact": {"device": "npu", "numerics": "exact"},
        "emulated NPU, strict": {"device": "npu", "numerics": "strict"},
        "GradScaler that skips a step": {"autocast": "float16", "scaler": True, "scale": 2.0**26, "mkldnn": False},
        "list optimizer": {"foreach": True, "mkldnn": False},
        "renamed module tree": {"renamed": True, "mkldnn": False},
    }
    for model in ALL:
        for name, settings in everywhere.items():
            yield Case(name=name, model=model, target=tuple(sorted(settings.items())), healthy=True)
    modules = (("levels", ("module",)),)
    for model in ALL:
        for name, settings in (("other kernels", {"mkldnn": False}), ("bfloat16 autocast", {"autocast": "bfloat16"})):
            target = (*modules, *settings.items())
            yield Case(name=f"modules only: {name}", model=model, reference=modules, target=target, healthy=True)
    for model in ("gpt", "seq2seq"):
        yield Case(name="fused attention", model=model, target=(("sdpa", True),), healthy=True)
        yield Case(name="hand-written GELU", model=model, target=(("fault", "hand-written GELU"),), healthy=True)
    for model in ALL:
        sgd = (("hyper", (("lr", 1e-2), ("momentum", 0.9))), ("optimizer", "SGD"))
        yield Case(
            name="other kernels, SGD", model=model, reference=sgd, target=(*sgd, ("mkldnn", False)), healthy=True
        )


def all_cases() -> list[Case]:
    """Return every case."""
    return [
        *in_the_model(),
        *in_a_kernel(),
        *in_a_later_step(),
        *through_modules(),
        *around_the_model(),
        *over_ranks(),
        *healthy(),
    ]
