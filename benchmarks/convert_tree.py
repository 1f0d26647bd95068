"""A made-up repository for the benchmark of converting: the same bytes for the same seed and size.

Files are as long as those of real repositories (most below 300 lines, some with thousands), in packages
that import each other, and as dense: 17 syntax nodes a line with their white space, as measured on real
training repositories. Code without CUDA is models, data handling, options and tests; code with it
holds the forms that training scripts have, a few a file, among the same kinds of code.
"""

from __future__ import annotations

import random
from pathlib import Path

WITH_CUDA_SHARE = 0.3
"""Share of lines in files that speak of CUDA; 1,179 of 9,399 files of 44 real repositories name torch.cuda, and
about as many again a device."""

_HEAD = """#!/usr/bin/env python
# Copyright (c) The Authors of This Made-Up Project. All rights reserved.
#
# Part of a repository that exists only to be converted; see the README for the
# license and for how to install what is imported below.

from __future__ import annotations

import os

import torch
import torch.nn as nn
{imports}

"""

_PLAIN = (
    '''class Block{n}(nn.Module):
    """Two convolutions with a residual connection.

    Args:
        channels: number of channels of the input and of the output.
        dropout: share of the values that are set to zero in training,
            between the two convolutions.
    """

    def __init__(self, channels: int = {k}, dropout: float = 0.{k}) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, kernel_size=3, padding=1, bias=False)
        self.second = nn.Conv2d(channels, channels, kernel_size=1, padding=0, bias=True)
        self.norm = nn.BatchNorm2d(channels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return a tensor of the shape of `x`."""
        hidden = torch.relu(self.norm(self.first(x)))  # the usual order

        # The connection goes around the whole block.
        hidden = self.norm(self.second(self.dropout(hidden)))
        return torch.relu(hidden + x)


''',
    '''def read_rows_{n}(path: str, limit: int = {k}00) -> list[dict[str, str]]:
    """Read a table of names and values.

    Lines without text are left out, and everything after `limit` lines.
    """
    rows = []
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file):
            if number >= limit:
                break
            # comments and blank lines
            if not line.strip() or line.startswith("#"):
                continue

            name, _, value = line.partition("\\t")
            rows.append({{"name": name.lower(), "value": value.rstrip(), "number": number + 1}})
    return sorted(rows, key=lambda row: (row["name"], -len(row["value"])))


''',
    '''def test_shapes_{n}() -> None:
    """The mean of what was normalised is zero."""
    batch, width = {k}, {k}4
    values = torch.arange(batch * width, dtype=torch.float32)
    values = values.reshape(batch, width)

    mean = values.mean(dim=1, keepdim=True)
    normal = (values - mean) / 2

    assert normal.shape == (batch, width), f"{{normal.shape}} is not {{(batch, width)}}"
    assert abs(float(normal.mean())) < 1e-5


''',
    """DEFAULTS_{n} = {{
    # optimiser
    "learning_rate": 1e-{k},
    "weight_decay": 0.0{k},
    # schedule
    "epochs": {k}0,
    "warmup": {k},
    "kind": "cosine",
    "path": os.path.join("/data", "set_{n}"),
}}


""",
)

_CUDA = (
    '''def train_{n}(model, loader, optimizer, args):
    """Train for one epoch."""
    device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    model = model.to(device)
    scaler = torch.cuda.amp.GradScaler(enabled=args.amp)

    for step, (images, target) in enumerate(loader):
        # move the batch
        images = images.cuda(non_blocking=True)
        target = target.to("cuda", non_blocking=True)

        with torch.cuda.amp.autocast(enabled=args.amp):
            output = model(images)
            loss = nn.functional.cross_entropy(output, target)

        # gradients
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

        if step % {k}0 == 0:
            torch.cuda.synchronize()
            print(f"step {{step}}: {{loss.item():.4f}}, {{torch.cuda.max_memory_allocated() / 2**20:.0f}} MB")


''',
    '''def init_{n}(rank: int, world_size: int) -> None:
    """Join the group of processes."""
    torch.cuda.set_device(rank)
    torch.distributed.init_process_group(
        backend="nccl", init_method="env://", rank=rank, world_size=world_size
    )
    # shapes do not change, so let it search
    torch.backends.cudnn.benchmark = True


''',
    '''def move_{n}(batch, device="cuda"):
    """Move a batch, whatever it is made of, to a device."""
    if isinstance(batch, torch.Tensor) and not batch.is_cuda:
        return batch.to(device)

    moved = {{}}
    for name, value in batch.items():
        moved[name] = move_{n}(value, device)
    return moved


''',
)


def write(root: Path, num_lines: int, seed: int = 0) -> dict[str, int]:
    """Write a tree of about `num_lines` lines; returns the lines of Python without and with CUDA, and the files."""
    random_ = random.Random(seed)
    written = {"without": 0, "with": 0, "files": 0}
    while written["without"] + written["with"] < num_lines:
        number = written["files"]
        cuda = written["with"] < WITH_CUDA_SHARE * (written["with"] + written["without"] + 1)
        text = _file(random_, number, cuda)
        path = root / f"package_{number % 20}" / f"part_{number % 7}" / f"module_{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        written["with" if cuda else "without"] += text.count("\n")
        written["files"] += 1
    for folder in sorted({path.parent for path in root.rglob("*.py")} | set(root.glob("package_*"))):
        (folder / "__init__.py").touch()
    (root / "train.sh").write_text("CUDA_VISIBLE_DEVICES=0,1 python package_0/part_0/module_0.py --device cuda\n")
    (root / "config.yaml").write_text("train:\n  device: cuda\n  backend: nccl\n")
    return written


def _file(random_: random.Random, number: int, cuda: bool) -> str:
    """Return one source: its length is log-normal about 130 lines, as in real repositories."""
    wanted = min(3000, max(20, int(random_.lognormvariate(4.9, 0.9))))
    others = {random_.randrange(number) for _ in range(3)} if number else set()
    imports = "".join(f"from package_{other % 20}.part_{other % 7} import module_{other}\n" for other in sorted(others))
    parts = [_HEAD.format(imports=imports)]
    lines = parts[0].count("\n")
    while lines < wanted:
        kind = _CUDA if cuda and random_.random() < 0.25 else _PLAIN
        part = random_.choice(kind).format(n=f"{number}_{len(parts)}", k=random_.randrange(1, 9))
        parts.append(part)
        lines += part.count("\n")
    if cuda and not any("cuda" in part for part in parts):
        parts.append(_CUDA[1].format(n=number, k=1))
    return "".join(parts)
