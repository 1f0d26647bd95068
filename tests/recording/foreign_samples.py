"""Dumps of other tools, made as these tools make them (their versions and forms: docs/interchange.md)."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from jumar.capture import record
from jumar.recording import Recording
from jumar.recording.tensors.arrays import write_tensors

ARRAYS: dict[str, dict[str, np.ndarray]] = {
    "aten::mul.Tensor/1": {
        "input.0": np.array([1.0, 2.0], np.float32),
        "input.other": np.array([2.0, np.inf], np.float32),
        "output.0": np.array([2.0, np.inf], np.float32),
    },
    "aten::neg/1": {"input.0": np.array([[1, -2]], np.int64), "output.0": np.array([[-1, 2]], np.int64)},
    "aten::mul.Tensor/2": {"input.0": np.array(3.0), "output.0": np.array(9.0)},
}
"""Calls of torch.utils.dumper by place, in the order of execution."""


def hdf5(path: Path) -> Path:
    write_tensors(path, ARRAYS, {})
    return path


def leaf(array: np.ndarray, file: str = "") -> dict[str, Any]:
    """Return what msprobe writes of a tensor."""
    found = {
        "type": "torch.Tensor",
        "dtype": f"torch.{array.dtype}",
        "shape": list(array.shape),
        "Max": float(array.max()),
        "Min": float(array.min()),
        "Mean": float(array.mean()),
        "Norm": float(np.linalg.norm(array)),
        "requires_grad": True,
    }
    return {**found, "data_name": file} if file else found


FRAMES = [
    "File /usr/lib/python3/site-packages/torch/nn/modules/module.py, line 1811, in inner, \n result = hook(self)",
    "File /home/user/net.py, line 21, in forward, \n a = torch.exp(a)",
    "File /home/user/train.py, line 5, in <module>, \n loss = net(x)",
]


def msprobe(folder: Path, *, level: str = "mix", step: int = 0, place: str = "rank0", files: bool = False) -> Path:
    """Write a step of `Net(exp)` whose result overflows."""
    x, y = np.array([1.0, 100.0], np.float32), np.array([np.e, np.inf], np.float32)
    part = folder / f"step{step}" / place
    (part / "dump_tensor_data").mkdir(parents=True)
    names = {"x": "Torch.exp.0.forward.input.0.pt", "y": "Torch.exp.0.forward.output.0.pt"} if files else {}
    with np.errstate(invalid="ignore"):
        call = {
            "input_args": [leaf(x, names.get("x", ""))],
            "input_kwargs": {},
            "output": [leaf(y, names.get("y", ""))],
        }
    for name, array in (("x", x), ("y", y)):
        if files:
            torch.save(torch.from_numpy(array), part / "dump_tensor_data" / names[name])
    data: dict[str, Any] = {}
    if level != "L0":
        data["Torch.exp.0.forward"] = call
    if level != "L1":
        plain = {**call, "parameters": {"weight": leaf(np.ones(2, np.float32))}}
        data["Module.blocks.0.act.Exp.forward.0"] = plain
        data["Module.blocks.0.act.Exp.parameters_grad.0"] = {"weight": [leaf(np.ones(2, np.float32))]}
        data["Module.blocks.0.act.Exp.backward.0"] = {"input": [leaf(x)], "output": [leaf(x), None]}
    document = {"task": "statistics", "level": level, "framework": "pytorch", "dump_data_dir": None, "data": data}
    (part / "dump.json").write_text(json.dumps(document))
    parents = {"Torch.exp.0.forward": "Module.blocks.0.act.Exp.forward.0"} if level == "mix" else {}
    (part / "construct.json").write_text(json.dumps({**parents, "Module.blocks.0.act.Exp.forward.0": None}))
    (part / "stack.json").write_text(json.dumps({"0": [list(data), FRAMES]}))
    return folder


def troubleshooter(folder: Path, *, files: bool = True) -> Path:
    """Write a dump of one linear layer and a function."""
    data = folder / "rank0" / "torch_api_dump"
    data.mkdir(parents=True)
    x, y = np.array([[1.0, 2.0]], np.float32), np.array([[3.0]], np.float32)
    lines: list[list[Any]] = []
    for name, array in (
        ("LAYER_body_0_forward_input", np.zeros(1, np.float32)),
        ("NN_Linear_0_forward_input.0", x),
        ("NN_Linear_0_forward_output", y),
        ("Torch_exp_0_forward_input.0", y),
        ("NN_Linear_0_backward_input", y),
    ):
        figures = [float(array.max()), float(array.min()), float("nan")]
        norm = float(np.linalg.norm(array))
        lines.append([name, 1, [], f"torch.{array.dtype}", list(array.shape), figures, [], norm])
        if files:
            np.save(data / f"{name}.npy", array)
    table = data.with_name("torch_api_dump_info.csv")
    table.write_text("".join(json.dumps(line) + "\n" for line in lines))
    frames = ["File /home/user/net.py, line 9, in forward, \n h = s.n(x)"]
    stacks = {"torch.nn.Linear(0) forward": frames, "LAYER: body.0 forward": frames}
    data.with_name("torch_api_dump_stack.json").write_text(json.dumps(stacks))
    return folder


def npy(folder: Path) -> Path:
    """Write what `msaccucmp.py convert` gives for two operators, one in the document's old form."""
    place = folder / "20240808163566" / "0"
    place.mkdir(parents=True)
    for name, array in (
        ("Conv2D.conv1.12.3.1589195081588000.input.0", np.ones((2, 3), np.float16)),
        ("Conv2D.conv1.12.3.1589195081588000.output.0", np.full((2, 3), 2, np.float16)),
        ("Pooling.pool1.1147.1589195081588018.output.0", np.zeros((1, 4), np.float32)),
    ):
        np.save(place / f"{name}.npy", array)
    return folder


def checkpoint(path: Path, factor: float = 1.0) -> Path:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Linear(4, 2))
    with torch.no_grad():
        model[2].weight.mul_(factor)
    torch.save(
        {"model": model.state_dict(), "epoch": 3, "optimizer": {"state": {0: {"step": torch.tensor(1.0)}}}}, path
    )
    return path


class Evil:
    """Runs a command when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.mark),)


def recording(folder: Path, values: str = "tensors") -> Recording:
    """Record one step of a small network."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 2))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with record(str(folder), model=model, values=values):  # type: ignore[arg-type]
        model(torch.randn(3, 4)).sum().backward()
        optimizer.step()
    return Recording.open(folder)


SIGNED = np.array([[1.5, -2.0], [0.0, 3.0]], np.float32)
POSITIVE = np.maximum(SIGNED, 0)


def collected(folder: Path, *, steps: int = 1, keeps_tensors: bool = True) -> Path:
    """Write a folder as the collector does, through its own notes."""
    from jumar.capture.frameworks.tensorflow.collector.notes import END, RUN, STEPS, VERSION, Notes, write_json
    from jumar.capture.frameworks.tensorflow.observe.layouts import Layouts

    (folder / STEPS).mkdir(parents=True)
    run = {"version": VERSION, "framework": "tensorflow", "command": ["train.py"], "layers": {"act": {"type": "ReLU"}}}
    write_json(folder / RUN, run)
    notes = Notes(str(folder), keeps_tensors, Layouts())
    for step in range(steps):
        notes.begin_step()
        draft = notes.draft("op", "forward", "act", "ReLU", "tf::Relu")
        notes.see(draft, [("input.0", SIGNED + step)])
        notes.see(draft, [("output.0", np.maximum(SIGNED + step, 0))], outputs=True)
        notes.finish(draft)
        notes.write(step)
    write_json(folder / END, {"status": "finished", "exit_code": 0, "num_steps": steps, "error": "", "not_covered": []})
    return folder
