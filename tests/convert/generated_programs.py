"""Hypothesis strategies for programs: Python's syntax, and the CUDA idioms that real repositories hold.

In the templates `E` stands for an expression, `S` for an indented block, `§` for `p(n)` with a number of its own.
"""

from __future__ import annotations

import functools
import re
import warnings
from textwrap import indent

from hypothesis import assume
from hypothesis import strategies as st

CUDA_EXPRESSIONS = """\
torch.cuda.is_available()
torch.cuda.device_count()
torch.cuda.current_device()
torch.cuda.set_device(E)
torch.cuda.synchronize()
torch.cuda.synchronize(device=E)
torch.cuda.empty_cache()
torch.cuda.current_stream()
torch.cuda.current_stream(device=E)
torch.cuda.Stream(priority=E)
torch.cuda.Event(enable_timing=E)
torch.cuda.manual_seed(E)
torch.cuda.manual_seed_all(E)
torch.cuda.max_memory_allocated(device=E)
torch.cuda.memory_allocated(E)
torch.cuda.memory_summary(E, abbreviated=E)
torch.cuda.mem_get_info(E)
torch.cuda.reset_peak_memory_stats()
torch.cuda.get_rng_state(E)
torch.cuda.set_rng_state(E, device=E)
torch.cuda.get_device_properties(E).name
torch.cuda.get_device_name(device=E)
torch.cuda.get_device_capability(E)[0]
torch.cuda.is_bf16_supported()
torch.cuda.nvtx.range_push(E)
torch.cuda.nccl.version()
torch.cuda.cudart().cudaProfilerStart()
torch.cuda.CUDAGraph()
torch.cuda.FloatTensor(E)
torch.cuda.LongTensor([E, E])
torch.cuda.amp.GradScaler(enabled=E)
torch.cuda.amp.GradScaler(E, growth_interval=E)
torch.cuda.amp.autocast(E)
torch.cuda.amp.autocast(enabled=E, dtype=E)
torch.cuda
torch.cuda.synchronize
cuda.current_device()
cuda.set_device(E)
c.max_memory_allocated(E)
t.cuda.device_count()
amp.autocast(enabled=E)
autocast(E)
autocast()
GradScaler(enabled=E)
torch.amp.GradScaler(enabled=E)
E.cuda()
E.cuda(E)
E.cuda(E, non_blocking=E)
E.cuda(device=E)
E.cuda(non_blocking=E)
map(torch.Tensor.cuda, E)
E.cuda
E.is_cuda
E.to('cuda')
E.to("cuda:0", non_blocking=E)
E.to(f'cuda:{F}')
E.to(f"cuda:{F}" if E else "cpu")
E.to('cuda:' + str(E))
E.to('cuda:%d' % E)
E.to('cuda:{}'.format(E))
E.to(E)
E.to(0)
torch.device('cuda')
torch.device('cuda', E)
torch.device(type='cuda', index=E)
torch.device('cuda' if E else 'cpu')
torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
torch.device(E)
torch.zeros(E, device='cuda')
torch.randn(E, E, device="cuda:1", dtype=E)
torch.load(E)
torch.load(E, map_location='cuda:0')
torch.load(E, map_location={'cuda:0': 'cuda:%d' % E})
torch.load(E, map_location=lambda storage, loc: storage.cuda(E))
torch.distributed.init_process_group('nccl', init_method=E)
torch.distributed.init_process_group(backend='nccl', rank=E, world_size=E)
torch.distributed.init_process_group("cuda:nccl,cpu:gloo")
torch.distributed.get_backend() == 'nccl'
torch.nn.DataParallel(E, device_ids=E)
torch.nn.parallel.DistributedDataParallel(E, device_ids=[E], output_device=E)
(§.device.type == 'cuda')
(§.device.type != "cuda")
(§.device.type in ('cuda', 'mps'))
('cuda' in str(§.device))
(§.device == torch.device('cuda'))
§.startswith('cuda')
(§.is_cuda and E)
(§.type() == 'torch.cuda.FloatTensor')
(flash_attn_func(E, E) if §.is_cuda else E)
torch.backends.cudnn.benchmark
torch.backends.cuda.matmul.allow_tf32
torch.version.cuda
os.environ.get('CUDA_VISIBLE_DEVICES', E)
os.environ['NCCL_DEBUG']
subprocess.check_output(['nvidia-smi', E])
torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA], record_shapes=E)
torch.autograd.profiler.profile(use_cuda=E)
E.key_averages().table(sort_by='cuda_time_total', row_limit=E)
getattr(torch.cuda, E)
hasattr(torch, 'cuda')
args.cuda
args.device
{'cuda': E, 'cpu': E}
E['cuda']
f(cuda=E, use_cuda=E)
'/data/cuda/model.pt'
'cuda'
'cuda:0'
'nccl'
f"cuda {F}"
apex.amp.initialize(E, E, opt_level='O2')
apex.optimizers.FusedAdam(E, lr=E)
flash_attn.flash_attn_func(E, E, E, causal=E)
torch.utils.data.DataLoader(E, batch_size=E, pin_memory=E)
torch.nn.CrossEntropyLoss()(E, E)
torch.optim.Adam(E, lr=E, fused=E)
torch.jit.script(E)
E.double()
E.half().cuda()""".splitlines()

PLAIN_EXPRESSIONS = """\
§
§
x
(1)
'cpu'
f(E, E)
f(E,  # why
    device=E)
f(*E, **{'a': E})
[E, E]
{E: E}
(E if E else E)
(E and E or E)
(not E)
(E == E)
(E + E)
[E for v in E if E]
{v: E for v in E}
(lambda a=E: E)()
(lambda *cuda: E)(E)
f'{F} and {F!r:>4}'
E[E:E]
E.a.b(E)(E)
(  # first
    E  # last
)""".splitlines()

CUDA_STATEMENTS = """\
import torch.cuda.amp as amp
from torch import cuda
from torch import cuda as c, nn
from torch.cuda.amp import autocast, GradScaler
from torch.cuda import Event, nvtx
import torch as t
import apex
from apex.parallel import DistributedDataParallel as DDP
import flash_attn
import torch.backends.cudnn as cudnn
device = 'cuda'
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")  # where
device = f'cuda:{F}' if E else 'cpu'
cuda = torch.cuda.is_available() and E
torch.backends.cudnn.benchmark = E
os.environ['CUDA_VISIBLE_DEVICES'] = '1'
parser.add_argument('--device', default='cuda', choices=['cuda', 'cpu'], help=E)
parser.add_argument('--gpu', default=None, type=int, help='GPU id, as in cuda:0')
parser.add_argument('--dist-backend', default='nccl')
torch.set_default_tensor_type('torch.cuda.FloatTensor')
torch.set_default_device('cuda')
with torch.cuda.device(E):S
with torch.cuda.stream(E) as cuda, E:S
with torch.cuda.amp.autocast():S
with autocast(enabled=E):S
if torch.cuda.is_available():S
if §.is_cuda:Selse:S
if E.device.type == 'cuda' and not E:S
try:Sexcept torch.cuda.OutOfMemoryError:S
try:Sexcept RuntimeError as error:
    if 'CUDA out of memory' in str(error): E
@torch.cuda.amp.custom_fwd
def forward(ctx, a=E):S
@torch.cuda.amp.custom_fwd(cast_inputs=E)
def forward(ctx, a=E):S
class Device(Enum):
    CUDA = E
    CPU = E
x = Device.CUDA if E else Device.CPU
class Holder(torch.nn.Module):
    def cuda(self, device=None):
        E
        return self
Holder().cuda(E)
def cuda(device='cuda'):S
cuda(E)
table = {'cuda': E, 'cpu': E}; table['cuda']
match §:
    case 'cuda':
        E
    case {'cuda': _} | 'cuda:0':
        E
for x in torch.cuda.device_count(), E:S
x = E.cuda(); E.cuda(x)
x: 'torch.cuda.Stream' = torch.cuda.Stream()
def typed(s: torch.cuda.Stream = E, *, n: "torch.cuda.FloatTensor" = None) -> torch.cuda.Event:S
global_stream = torch.cuda.current_stream  # a value
print(f"on cuda:{F}", torch.cuda.memory_allocated() / E)
scaler = torch.cuda.amp.GradScaler(); scaler.scale(E).backward(); scaler.step(E)
loss = criterion(E, target); loss.backward()""".splitlines()

PLAIN_STATEMENTS = """\
E
x = E  # note
x, y = E, E
x += E
assert E, E
del E[E]
if (y := E):Selif E:Selse:S
while E:
    E
    break
for v in E:Selse:S
try:Sexcept ValueError:Sfinally:S
with E as y, E:S
def g(a, b=E, *, c=E):S
def g():
    global x
    x = E
    return E
g()
@E
def h(): return E
h()
class A(E):
    a = E
    def b(self): return E
A().b()
async def co():
    async with E as y:S
    async for v in ():S
    return await E
finish(co())
def gen(): yield E
list(gen())
match E:
    case [a, *_] if E:
        E
    case _:
        E
return_value = [E
                # a comment of its own
                , E]""".splitlines()

NAMES = "x = y = f = args = model = device = rank = parser = criterion = target = loader = §"
PLAIN_IMPORTS = ("import os", "import subprocess", "import torch", "import torch.nn as nn", "from enum import Enum")
CUDA_IMPORTS = (
    "import torch as t", "from torch import cuda", "from torch import cuda as c, nn", "import torch.cuda.amp as amp",
    "from torch.cuda.amp import autocast, GradScaler", "import apex", "import flash_attn",
    "from flash_attn import flash_attn_func", "from torch.cuda import Event, nvtx", "import torch.cuda",
)  # fmt: skip


def _joined(lines: list[str]) -> list[str]:
    """Join the lines of a list above that belong to one template: indented ones, and what a decorator stands over."""
    found: list[str] = []
    for line in lines:
        decorated = bool(found) and found[-1].startswith("@") and re.match(r"(async )?def |class ", line) is not None
        if found and (line.startswith((" ", ")")) or decorated):
            found[-1] += f"\n{line}"
        else:
            found.append(line)
    return found


_FIELD = st.sampled_from(["§", "x", "rank + 1", "§.index", "x[0]"])


def _filled(template: str, expressions: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Put generated expressions at each `E` and fields of f-strings at each `F`."""
    parts = re.split(r"\b([EF])\b", template)
    drawn = [_FIELD if part == "F" else expressions if part == "E" else st.just(part) for part in parts]
    return st.tuples(*drawn).map("".join)


@functools.cache
def expressions(*, cuda: bool) -> st.SearchStrategy[str]:
    """Expressions of any depth; without `cuda`, none that has to do with a device."""
    templates = [*_joined(PLAIN_EXPRESSIONS), *(CUDA_EXPRESSIONS if cuda else ())]
    leaves = [template for template in templates if not re.search(r"\bE\b", template)]
    inner = [template for template in templates if template not in leaves]

    def extend(smaller: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        return st.sampled_from(inner).flatmap(lambda template: _filled(template, smaller))

    base = st.sampled_from(leaves).flatmap(lambda template: _filled(template, st.just("§")))
    return st.recursive(st.just("§") | base, extend, max_leaves=5)


@functools.cache
def statements(*, cuda: bool) -> st.SearchStrategy[str]:
    """Statements, blocks among them, each a text without indentation."""
    of_expressions = expressions(cuda=cuda)
    templates = [*_joined(PLAIN_STATEMENTS), *(_joined(CUDA_STATEMENTS) if cuda else ())]
    simple = [template for template in templates if ":S" not in template]
    compound = [template for template in templates if ":S" in template]

    def block(template: str, smaller: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        head, *rest = template.split(":S")
        parts = [_filled(head, of_expressions)]
        for part in rest:
            column = len(head) - len(head.rpartition("\n")[2].lstrip()) - (head.rfind("\n") + 1)
            parts += [smaller.map(lambda body, depth=column + 4: f":\n{indent(body, ' ' * depth)}")]
            parts += [_filled(f"\n{part.removeprefix(chr(10))}" if part else "", of_expressions)]
            head = part
        return st.tuples(*parts).map("".join)

    leaf = st.sampled_from(simple).flatmap(lambda template: _filled(template, of_expressions))
    return st.recursive(
        leaf, lambda smaller: st.sampled_from(compound).flatmap(lambda chosen: block(chosen, smaller)), max_leaves=3
    )


@st.composite
def programs(draw: st.DrawFn, *, cuda: bool = True) -> bytes:
    """Whole programs that parse, in either line end, with or without a last one."""
    known = [*PLAIN_IMPORTS, *(CUDA_IMPORTS if cuda else ())]
    some = st.lists(st.sampled_from(known), unique=True).map(
        lambda names: list(dict.fromkeys([*names, "import torch"]))
    )
    imports = draw(st.just(known) | st.permutations(known) | some)
    body = draw(st.lists(statements(cuda=cuda), min_size=1, max_size=5))
    head = draw(st.sampled_from(["", '"""About cuda."""\n', "#!/usr/bin/env python\n# cuda\n"] if cuda else [""]))
    text = head + "\n".join([*imports, NAMES, *body])
    parts = text.split("§")
    text = "".join(f"{part}p({number})" for number, part in enumerate(parts[:-1])) + parts[-1]
    text += draw(st.sampled_from(["\n", "", "\n\n"]))
    assume(compiles(text) and not _NO_TENSOR.search(text))
    return text.replace("\n", draw(st.sampled_from(["\n", "\n", "\r\n"]))).encode()


_NO_TENSOR = re.compile(r"""(['"]\)*|torch\.cuda(\.\w+)+)\.(cuda|is_cuda)\b""")
"""A string or a function of PyTorch's that is moved, which no program does."""


def compiles(text: str) -> bool:
    """Tell whether Python takes the program; its warnings (a number is called, and the like) do not count."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            compile(text, "program.py", "exec")
        except SyntaxError:
            return False
    return True
