"""The engines that `benchmarks/tune.py` compares, each at its own best-known settings, each in its own process.

    python benchmarks/tune_contenders.py ENGINE ROW THREADS OUTPUT.pt

prepares the row's model and answers requests on stdin, one JSON object a line: `{"calls": n}` is answered by the
microseconds a call took on average, after one call that is not timed, and the share of the time during which other
programs kept a thread from running. The first line it writes says how long preparing took, or why it cannot.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
import tune_models
from torch import nn

from jumar.tune.backend.knowledge import ERROR_BUDGET
from jumar.tune.measure.worker.pairs import read_waits, waited_us

Inputs = tuple[torch.Tensor, ...]
Call = Callable[[], Any]


def eager(model: nn.Module, inputs: Inputs, _threads: int) -> Call:
    return lambda: model(*inputs)


def eager_channels_last(model: nn.Module, inputs: Inputs, _threads: int) -> Call:
    model, inputs = in_channels_last(model, inputs)
    return lambda: model(*inputs)


def in_channels_last(model: nn.Module, inputs: Inputs) -> tuple[nn.Module, Inputs]:
    if inputs[0].dim() != 4:
        raise RuntimeError("there are no images in this row")
    model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return model, tuple(one.contiguous(memory_format=torch.channels_last) for one in inputs)


def compiled(model: nn.Module, inputs: Inputs, _threads: int) -> Call:
    function = torch.compile(model)
    return lambda: function(*inputs)


def compiled_best(model: nn.Module, inputs: Inputs, threads: int) -> Call:
    """Freezing, max-autotune with the C++ GEMM templates beside ATen's."""
    from torch._inductor import config

    config.freezing = True
    config.max_autotune = True
    config.max_autotune_gemm_backends = "CPP,ATEN"
    return compiled(model, inputs, threads)


def compiled_best_channels_last(model: nn.Module, inputs: Inputs, threads: int) -> Call:
    return compiled_best(*in_channels_last(model, inputs), threads)


def onnx_file(model: nn.Module, inputs: Inputs, folder: str) -> str:
    path = str(Path(folder) / "model.onnx")
    torch.onnx.export(model, inputs, path, dynamo=True, verbose=False, optimize=True)
    return path


def onnxruntime(model: nn.Module, inputs: Inputs, threads: int) -> Call:
    """All graph optimizations; inputs and outputs bound to PyTorch's memory, so that nothing is copied."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.log_severity_level = 3
    with tempfile.TemporaryDirectory() as folder:
        session = ort.InferenceSession(onnx_file(model, inputs, folder), options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    arrays = [one.contiguous().numpy() for one in inputs]
    for place, array in zip(session.get_inputs(), arrays, strict=True):
        binding.bind_cpu_input(place.name, array)
    for place in session.get_outputs():
        binding.bind_output(place.name, "cpu")

    def call() -> torch.Tensor:
        session.run_with_iobinding(binding)
        return torch.from_numpy(binding.copy_outputs_to_cpu()[0])

    return call


def openvino(model: nn.Module, inputs: Inputs, threads: int, precision: str = "f32") -> Call:
    """Latency hint, one stream; shared memory on both sides."""
    import openvino as ov

    core = ov.Core()
    with tempfile.TemporaryDirectory() as folder:
        read = core.read_model(onnx_file(model, inputs, folder))
        settings = {
            "PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": "1", "INFERENCE_NUM_THREADS": str(threads),
            "INFERENCE_PRECISION_HINT": precision,
        }  # fmt: skip
        request = core.compile_model(read, "CPU", settings).create_infer_request()
    arrays = [one.contiguous().numpy() for one in inputs]

    def call() -> torch.Tensor:
        return torch.from_numpy(request.infer(arrays, share_inputs=True, share_outputs=True)[0])

    return call


def openvino_bf16(model: nn.Module, inputs: Inputs, threads: int) -> Call:
    return openvino(model, inputs, threads, "bf16")


def tvm(model: nn.Module, inputs: Inputs, threads: int) -> Call:
    """TVM's default pipeline for this processor: a search of its own would take hours a row."""
    os.environ["TVM_NUM_THREADS"] = str(threads)  # read at the import
    import tvm as engine
    from tvm import relax
    from tvm.relax.frontend.torch import from_exported_program
    from tvm.target.codegen import llvm_get_system_cpu

    target = engine.target.Target({"kind": "llvm", "mcpu": llvm_get_system_cpu()})
    module = from_exported_program(torch.export.export(model, inputs), keep_params_as_input=False)
    with target:
        machine = relax.VirtualMachine(relax.build(relax.get_pipeline("zero")(module), target=target), engine.cpu())
    arrays = [engine.runtime.from_dlpack(one.contiguous()) for one in inputs]
    return lambda: torch.from_dlpack(machine["main"](*arrays)[0])


def jumar(model: nn.Module, inputs: Inputs, _threads: int) -> Call:
    """What `torch.compile(model, backend="jumar")` makes of the bank that the row was tuned into."""
    function = torch.compile(model, backend="jumar")
    return lambda: function(*inputs)


def jumar_file(model: nn.Module, inputs: Inputs, _threads: int) -> Call:
    """The plan that the bank has as a file that was made once, as ONNX Runtime and OpenVINO have theirs."""
    import jumar
    from jumar.tune.artefact import freeze
    from jumar.tune.bank.location import bank_place
    from jumar.tune.bank.store import Bank

    bank = Bank.open(bank_place(None, os.environ), create=False)
    with tempfile.TemporaryDirectory() as folder:
        budget = os.environ.get(ERROR_BUDGET)
        within = None if budget is None else float(budget)
        freeze(model, inputs, Path(folder) / "model.jumar", bank=bank, error_budget=within)
        function = jumar.load(Path(folder) / "model.jumar")
    bank.close()
    return lambda: function(*inputs)


ENGINES: dict[str, Callable[[nn.Module, Inputs, int], Call]] = {
    "eager": eager,
    "eager-cl": eager_channels_last,
    "compile": compiled,
    "compile-best": compiled_best,
    "compile-best-cl": compiled_best_channels_last,
    "onnxruntime": onnxruntime,
    "openvino": openvino,
    "openvino-bf16": openvino_bf16,
    "tvm": tvm,
    "jumar": jumar,
    "jumar-file": jumar_file,
}
TRAIN = ("eager", "eager-cl", "compile", "compile-best", "jumar")
"""Engines that compute backward graphs."""
LOWER_PRECISION = ("openvino-bf16",)
"""Compared in rows with an error budget only."""
PACKAGES = {"onnxruntime": "onnxruntime", "openvino": "openvino", "openvino-bf16": "openvino", "tvm": "apache-tvm"}


def trained(engine: str, model: nn.Module, inputs: Inputs) -> Call:
    """Return a training step by this engine. Freezing has no meaning where weights change."""
    model.train()
    if engine == "eager-cl":
        model, inputs = in_channels_last(model, inputs)
    if engine == "compile-best":
        from torch._inductor import config

        config.max_autotune = True
        config.max_autotune_gemm_backends = "CPP,ATEN"
    backend = {"compile": "inductor", "compile-best": "inductor", "jumar": "jumar"}.get(engine)
    return tune_models.training_step(torch.compile(model, backend=backend) if backend else model, inputs)


def prepare(engine: str, row: str, threads: int) -> Call:
    name, _, batch = row.partition(":")
    model, inputs = tune_models.make(name, int(batch))
    if name in tune_models.TRAINING:
        return trained(engine, model, inputs)
    return ENGINES[engine](model, inputs, threads)


def serve(engine: str, row: str, threads: int, output: Path) -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print must not mix with the answers
    torch.set_num_threads(threads)
    training = row.partition(":")[0] in tune_models.TRAINING
    start = time.perf_counter()
    hello: dict[str, Any] = {"version": metadata.version(PACKAGES.get(engine, "torch"))}
    try:
        with torch.set_grad_enabled(training):
            call = prepare(engine, row, threads)
            first = call()
            hello["prepare_s"] = time.perf_counter() - start
            torch.save(first.detach().clone(), output)
    except Exception as error:  # noqa: BLE001 - an engine that cannot take a model is a result of the row
        hello["error"] = f"{type(error).__name__}: {error}".splitlines()[0][:300]
    print(json.dumps(hello), file=answers, flush=True)
    with torch.set_grad_enabled(training):
        for line in sys.stdin if "error" not in hello else ():
            print(json.dumps(timed(call, json.loads(line)["calls"])), file=answers, flush=True)


def timed(call: Call, calls: int) -> dict[str, float]:
    call()
    waits, start = read_waits(), time.perf_counter_ns()
    for _ in range(calls):
        call()
    total_us = (time.perf_counter_ns() - start) / 1000
    return {"us": total_us / calls, "waited": waited_us(waits, read_waits()) / total_us}


if __name__ == "__main__":
    serve(sys.argv[1], sys.argv[2], int(sys.argv[3]), Path(sys.argv[4]))
