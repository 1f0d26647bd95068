"""The fixed parts of a script: loading, comparing, devices, the command line. `script` fills them in."""

from __future__ import annotations

HEAD = """
import argparse
import contextlib
import importlib.util
import math
import sys
from pathlib import Path

import numpy as np
import torch
"""

BODY = '''
RAW = {"bfloat16": np.int16, "complex32": np.int32}  # dtypes that NumPy lacks are kept as raw integers


def stored(name):
    """Return a stored array, flat."""
    with np.load(Path(__file__).with_name("tensors.npz")) as file:
        return file[name].reshape(-1)


def typed(array, dtype):
    """Return a stored array as a tensor of the dtype called `dtype`."""
    if dtype in RAW or dtype.startswith("float8"):
        return torch.from_numpy(array.view(RAW.get(dtype, np.uint8))).view(getattr(torch, dtype))
    return torch.from_numpy(array)


def wider(dtype):
    """Return what a dtype becomes for the exact result."""
    if dtype.is_complex:
        return getattr(torch, {"float64": "complex128", "float32": "complex64"}[PRECISION])
    return getattr(torch, PRECISION) if dtype.is_floating_point else dtype


def tensors(device, f):
    """Return the recorded inputs on a device, with the strides and shared memory they had; `f` maps dtypes."""
    found = {}
    for memory in {spec[-1] for spec in TENSORS.values()}:
        members = {name: spec for name, spec in TENSORS.items() if spec[-1] == memory}
        extent = max(offset + span(shape, stride) for _, shape, stride, offset, _ in members.values())
        arrays = {name: stored(name) for name in members}
        buffer = np.zeros(extent, next(iter(arrays.values())).dtype)
        for name, (kind, shape, stride, offset, _) in members.items():
            buffer[torch.arange(extent).as_strided(shape, stride, offset).reshape(-1).numpy()] = arrays[name]
        flat = typed(buffer, kind)
        flat = flat.to(f(flat.dtype)).to(device)
        for name, (_, shape, stride, offset, _) in members.items():
            found[name] = flat.as_strided(shape, stride, offset)
    return found


def span(shape, stride):
    """Return the elements of memory from the first to the last of a tensor."""
    return 0 if 0 in shape else 1 + sum((n - 1) * s for n, s in zip(shape, stride))


def named(prefix, result):
    """Return the tensors of a result by name: output.0, output.1, output.0.2 of lists."""
    values = result if isinstance(result, (list, tuple)) else [result]
    found = {}
    for position, value in enumerate(values):
        if isinstance(value, (list, tuple)):
            found |= named(f"{prefix}.{position}", value)
        elif isinstance(value, torch.Tensor):
            found[f"{prefix}.{position}"] = value
    return found


def run(device, f=lambda dtype: dtype):
    """Return the outputs by name, on the CPU."""
    with torch.no_grad(), on(device):
        return {name: t.cpu() for name, t in calculate(tensors(device, f), f, device).items()}


def exact():
    """Return the exact outputs: calculated in a wider dtype on the CPU, or as stored where a CPU cannot."""
    if EXACT:
        return {name: typed(stored(f"exact.{name}"), EXACT[name]).reshape(OUTPUTS[name][1]) for name in EXACT}
    default = torch.get_default_dtype()
    torch.set_default_dtype(getattr(torch, PRECISION))
    try:
        return run("cpu", wider)
    finally:
        torch.set_default_dtype(default)


def recorded():
    """Return the recorded outputs."""
    return {name: typed(stored(f"recorded.{name}"), kind).reshape(shape) for name, (kind, shape) in OUTPUTS.items()}


def error(found, true, natural=0.0):
    """Return the greater of L2 and greatest elementwise distance, relative to the scale of the calculation.

    inf where NaN or Inf elements differ; of integers the share of elements that differ.
    """
    if not found.numel():
        return 0.0
    if not (found.is_floating_point() or found.is_complex()):
        return float((found != true.to(found.dtype)).double().mean())
    wide = torch.complex128 if found.is_complex() else torch.float64
    rounded = true.to(found.dtype).to(wide)
    a, b = found.to(wide), torch.where(torch.isfinite(rounded), true.to(wide), rounded)
    finite = torch.isfinite(a) & torch.isfinite(b)
    if not bool(((a == b) | (torch.isnan(a) & torch.isnan(b)) | finite).all()):
        return math.inf
    a, b = a[finite], b[finite]
    if not a.numel():
        return 0.0
    l2 = max(float(a.abs().square().sum()) ** 0.5, float(b.abs().square().sum()) ** 0.5, natural)
    greatest = max(float(a.abs().max()), float(b.abs().max()), natural / found.numel() ** 0.5)
    far = (a - b).abs()
    return max(
        float(far.square().sum()) ** 0.5 / l2 if l2 else 0.0,
        float(far.max()) / greatest if greatest else 0.0,
    )


def errors(device):
    """Return the error of each judged output on a device (`recorded`: of the recorded outputs)."""
    true, found = exact(), recorded() if device == "recorded" else run(device)
    return {name: error(found[name], true[name], NATURAL[name]) for name in OUTPUTS if name in found}


def devices():
    """Return the devices that can be had here."""
    found = [] if EXACT else ["cpu"]
    if torch.cuda.is_available():
        found.append("cuda")
    if any(importlib.util.find_spec(name) is not None for name in ("torch_npu", "jumar")):
        found.append("npu")
    return found


@contextlib.contextmanager
def on(device):
    """Bring a device up: the NPU by torch_npu, or by Jumar's emulated one."""
    emulated = any(type(finder).__module__.startswith("jumar.") for finder in sys.meta_path)
    if device.partition(":")[0] != "npu":
        yield
    elif not emulated and importlib.util.find_spec("torch_npu") is not None:
        importlib.import_module("torch_npu")
        yield
    else:
        import jumar

        with jumar.emulate(SOC):
            yield


def main():
    """Print the errors; return 1 when a device is off by more than rounding explains."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", action="append", help="may be repeated; default: all there are")
    chosen = parser.parse_args().device or devices()
    print(TITLE)
    print(f"{'':<24}{'output':<20}{'error':>12}{'rounding':>12}  multiple")
    failed = False
    for device in ["recorded", *chosen]:
        for name, value in errors(device).items():
            allowed = TOLERANCE[name]
            times = value / allowed if allowed else (math.inf if value else 0.0)
            failed |= device != "recorded" and times > 1
            shown = f"recorded ({RECORDED_ON})" if device == "recorded" else device
            print(f"{shown[:23]:<24}{name:<20}{value:>12.3g}{allowed:>12.3g}  {times:.3g}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
'''
