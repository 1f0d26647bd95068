"""Small CUDA programs that check themselves; each runs converted on a CPU, an NPU and the stand-in for CUDA.

Run as a script it takes the name of a machine and prints what became of each program, as JSON.
"""

from __future__ import annotations

import json
import sys
import traceback

PROGRAMS = {
    "a training step": """
import torch
device = 'cuda' if torch.cuda.is_available() else 'cpu'
torch.manual_seed(0)
torch.cuda.manual_seed_all(0)
model = torch.nn.Linear(4, 2).to(device)
x, y = torch.randn(8, 4).cuda(non_blocking=True), torch.randn(8, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
losses = []
for _ in range(3):
    loss = torch.nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
torch.cuda.synchronize()
assert losses[2] < losses[0]
""",
    "guards": """
import torch
x = torch.zeros(2).cuda()
there = torch.cuda.is_available()
device = 'cuda' if there else 'cpu'
assert x.is_cuda == there
assert (x.device.type == 'cuda') is there
assert (device == 'cuda') is there
assert ('cuda' in device) is there
assert ('cuda' not in device) is not there
assert (device != 'cuda') is not there
assert device.startswith('cuda') is there
assert (device in ('cuda', 'mps')) is there
assert (x.device == torch.device('cuda', x.device.index) if there else not x.is_cuda)
assert torch.zeros(2).is_cuda is False
assert not torch.zeros(2).device.type == 'cuda'
""",
    "device strings with an index": """
import torch
i = 0
for name in ('cuda:0', f'cuda:{i}', 'cuda:%d' % i, 'cuda:{}'.format(i), 'cuda:' + str(i)):
    x = torch.zeros(2, device=name)
    assert x.sum().item() == 0
    assert x.device.type == torch.zeros(1, device='cuda').device.type
""",
    "moves": """
import torch
none, number, device = None, 0, torch.device('cuda')
for x in (torch.zeros(2), torch.nn.Linear(2, 2)):
    for moved in (x.cuda(), x.cuda(none), x.cuda(number), x.cuda(device), x.cuda(device=number)):
        assert moved is not None
assert [t.device.type for t in map(torch.Tensor.cuda, [torch.zeros(1)])] == [torch.device('cuda').type]
evaluated = []
def where():
    evaluated.append(1)
    return 0
torch.zeros(2).cuda(where(), True)
assert evaluated == [1]
""",
    "memory": """
import torch
x = torch.zeros(256).cuda()
torch.cuda.empty_cache()
torch.cuda.reset_peak_memory_stats()
used, reserved = torch.cuda.memory_allocated(), torch.cuda.max_memory_allocated(device=None)
assert (used > 0) is torch.cuda.is_available()
assert isinstance(torch.cuda.memory_stats(), dict)
print(f'{torch.cuda.memory_reserved() / 2 ** 20:.1f} MiB')
""",
    "random numbers": """
import torch
torch.cuda.manual_seed(3)
torch.cuda.manual_seed_all(3)
states = torch.cuda.get_rng_state_all()
torch.cuda.set_rng_state_all(states)
assert len(states) == torch.cuda.device_count()
if torch.cuda.is_available():
    torch.cuda.manual_seed(3)
    first = torch.rand(4, device='cuda')
    torch.cuda.manual_seed(3)
    assert torch.equal(first, torch.rand(4, device='cuda'))
""",
    "streams": """
import torch
stream = torch.cuda.Stream()
with torch.cuda.stream(stream):
    x = torch.ones(2, device='cuda') * 2
torch.cuda.current_stream().wait_stream(stream) if torch.cuda.is_available() else None
torch.cuda.synchronize()
assert x.sum().item() == 4
if torch.cuda.is_available():
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    end.record()
    torch.cuda.synchronize()
    assert start.elapsed_time(end) >= 0
    with torch.cuda.device(0):
        assert torch.cuda.current_device() == 0
""",
    "mixed precision": """
import torch
from torch.cuda.amp import autocast, GradScaler
model = torch.nn.Linear(4, 4).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = GradScaler()
with autocast(True):
    loss = model(torch.randn(2, 4).cuda()).float().sum()
scaler.scale(loss).backward()
scaler.step(optimizer)
scaler.update()
with torch.autocast('cuda', enabled=False):
    assert model(torch.randn(2, 4, device='cuda')).dtype == torch.float32
""",
    "tensor types": """
import torch
Tensor = torch.cuda.FloatTensor if torch.cuda.is_available() else torch.FloatTensor
x = Tensor(2, 3).fill_(1.0)
assert x.sum().item() == 6
y = torch.cuda.LongTensor([1, 2])
assert y.tolist() == [1, 2]
assert x.type('torch.cuda.DoubleTensor' if False else torch.cuda.IntTensor).dtype == torch.int32
assert isinstance(y, torch.cuda.LongTensor)
""",
    "out of memory": """
import torch
def attempt():
    try:
        raise torch.cuda.OutOfMemoryError('CUDA out of memory. Tried to allocate 20.00 GiB')
    except torch.cuda.OutOfMemoryError as error:
        torch.cuda.empty_cache()
        return 'out of memory' in str(error)
assert attempt()
""",
    "imports by name": """
import torch as th
from torch import cuda
from torch.cuda import device_count, is_available as available, synchronize
assert available() == cuda.is_available()
assert device_count() >= available()
synchronize()
x = th.zeros(1).cuda()
assert x.is_cuda == available()
""",
    "options": """
import argparse
import torch
parser = argparse.ArgumentParser()
parser.add_argument('--device', default='cuda', choices=['cuda', 'cpu'])
args = parser.parse_args([])
assert torch.zeros(1, device=args.device).is_cuda == (args.device == 'cuda')
assert parser.parse_args(['--device', 'cpu']).device == 'cpu'
assert (parser.parse_args(['--device', 'cpu']).device == 'cuda') is False
""",
    "collectives": """
import os
import tempfile
import torch
import torch.distributed as dist
with tempfile.TemporaryDirectory() as folder:
    dist.init_process_group('nccl', init_method='file://' + os.path.join(folder, 'f'), rank=0, world_size=1)
    assert (dist.get_backend() == 'nccl') is torch.cuda.is_available()
    x = torch.ones(2).cuda()
    dist.all_reduce(x)
    assert x.tolist() == [1, 1]
    dist.destroy_process_group()
""",
    "checkpoints": """
import io
import torch
buffer = io.BytesIO()
torch.save({'w': torch.arange(3.0).cuda()}, buffer)
i = 0
def load(**where):
    buffer.seek(0)
    found = torch.load(buffer, **where)['w']
    assert found.tolist() == [0, 1, 2]
    assert found.is_cuda is torch.cuda.is_available()
load(map_location='cuda')
load(map_location='cuda:0')
load(map_location='cuda:%d' % i)
load(map_location=f'cuda:{i}' if i >= 0 else 'cpu')
load(map_location=torch.device('cuda'))
load(map_location=lambda storage, loc: storage.cuda(0))
""",
}


def run(machine: str) -> dict[str, str]:
    """Convert and run every program; return the name and the error of those that fail."""
    from jumar.convert import ConvertOptions, convert_source
    from jumar.device import DevicePlan
    from jumar.device.bridge import activate

    if machine == "npu":
        activate(DevicePlan(real="never", numerics="exact"))
    elif machine == "cuda":
        activate(DevicePlan(kind="cuda-stand-in", numerics="exact"))
    failed = {}
    for name, program in PROGRAMS.items():
        after = convert_source(program, "program.py", ConvertOptions(target="agnostic")).after.decode()
        try:
            exec(compile(after, name, "exec"), {"__name__": "__main__"})
        except Exception:  # noqa: BLE001  # the caller is told what each program raised
            failed[name] = f"{traceback.format_exc()}\n{after}"
    return failed


if __name__ == "__main__":
    print(json.dumps(run(sys.argv[1])))
