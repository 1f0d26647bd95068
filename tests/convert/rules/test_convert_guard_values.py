"""The value of a test for CUDA is followed: what it selects, stores, imports, and what asks for it later."""

from __future__ import annotations

import pytest
from convert_cases import agnostic, converted, findings, outcome

from jumar.base.findings import Severity

TORCH = "import torch\n"

KERNELS = {
    "a selected function": "def f(x):\n    g = focal_cuda if x.is_cuda else focal_cpu\n    return g(x)\n",
    "a selected pair": "def f(x):\n    a, b = (up_cuda, down_cuda) if x.is_cuda else (up, down)\n    return a(b(x))\n",
    "a selected class": "def f(x):\n    op = GatherCUDA if x.is_cuda else Gather\n    return op.apply(x)\n",
    "a returned function": "def pick(x):\n    return ext.forward if x.device.type == 'cuda' else ref\n",
    "a stored function": "def f(x):\n    op = ref\n    if x.is_cuda:\n        op = nms_cuda\n    return op(x)\n",
    "a stored attribute": "class A:\n    def f(self, x):\n        if x.is_cuda:\n            self.op = nms_cuda\n",
    "a passed function": "def f(x):\n    if x.is_cuda:\n        register('nms', nms_cuda)\n",
    "a variable": "def f(x):\n    use = x.is_cuda\n    if use:\n        return _C.op(x)\n    return ref(x)\n",
    "a negative variable": (
        "def f(x):\n    cpu = not x.is_cuda\n    if cpu:\n        return ref(x)\n    return _C.op(x)\n"
    ),
    "a variable and more": (
        "def f(x):\n    use = x.is_cuda and x.dim() == 3\n    return nms_cuda(x) if use else ref(x)\n"
    ),
    "a chain of variables": "def f(x):\n    a = x.is_cuda\n    b = a and ok\n    if b:\n        return _C.op(x)\n",
    "an attribute": (
        "class A:\n    def __init__(self, x):\n        self.on = x.is_cuda\n"
        "    def f(self, x):\n        if self.on:\n            return _C.op(x)\n        return ref(x)\n"
    ),
    "a module's variable": "HAS = torch.cuda.is_available()\nif HAS:\n    import my_ext_cuda\n",
    "an import of a private module": "HAS = torch.cuda.is_available()\nif HAS:\n    from pkg import _ops\n",
    "an import in a function": (
        "HAS = torch.cuda.is_available()\ndef f(x):\n    if not HAS:\n        return ref(x)\n"
        "    from pkg.nms_cuda import run\n    return run(x)\n"
    ),
    "a function": "def on(x):\n    return x.is_cuda\ndef f(x):\n    return _C.op(x) if on(x) else ref(x)\n",
    "a property": (
        "class A:\n    @property\n    def on(self):\n        return self.w.is_cuda\n"
        "    def f(self):\n        if self.on:\n            return _C.op(self.w)\n"
    ),
    "an argument": "def g(x, fast):\n    return _C.op(x) if fast else ref(x)\ndef f(x):\n    return g(x, x.is_cuda)\n",
    "a keyword": (
        "def g(x, *, fast=False):\n    if fast:\n        return _C.op(x)\ndef f(x):\n    return g(x, fast=x.is_cuda)\n"
    ),
    "an applied function": (
        "class Op(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x):\n        return _C.op(x)\n"
        "def f(x):\n    op = Op\n    return op.apply(x) if x.is_cuda else ref(x)\n"
    ),
    "a table": "OPS = {True: nms_cuda, False: nms}\ndef f(x):\n    return OPS[x.is_cuda](x)\n",
    "a pair": "def f(x):\n    return (nms, nms_cuda)[x.is_cuda](x)\n",
    "a walrus": (
        "def f(x):\n    if (use := x.is_cuda) and x.dim() > 1:\n        pass\n    return _C.op(x) if use else ref(x)\n"
    ),
}


@pytest.mark.parametrize("case", KERNELS)
def test_a_test_whose_value_leads_to_cuda_only_code_stays(case: str) -> None:
    source = TORCH + KERNELS[case]
    found = outcome(source, unsafe=True)
    assert found.after.decode() == source
    assert [finding.severity for finding in found.findings if finding.code == "JM108"] == [Severity.ADVICE]


ACCELERATOR = {
    "data that was moved": (
        "def f(x):\n    use = x.is_cuda\n    if use:\n        y_cuda = y.cuda()\n        return g(y_cuda)\n"
    ),
    "seeds": "HAS = torch.cuda.is_available()\nif HAS:\n    torch.cuda.manual_seed(1)\n",
    "a flag": "class A:\n    def __init__(self, x):\n        self.use_cuda = x.is_cuda\n",
    "a flag with a verb": "sync_cuda = torch.cuda.is_available()\nif sync_cuda:\n    torch.cuda.synchronize()\n",
    "a predicate": "def can_cuda():\n    return torch.cuda.is_available()\nif can_cuda():\n    go()\n",
    "a device": "use_cuda = torch.cuda.is_available()\ndevice = torch.device('cuda' if use_cuda else 'cpu')\n",
    "pinned memory": "pin = torch.cuda.is_available()\nloader = DataLoader(d, pin_memory=pin)\n",
    "a selected number": "def f(x):\n    n = 8 if x.is_cuda else 1\n    return n\n",
}


@pytest.mark.parametrize("case", ACCELERATOR)
def test_a_test_whose_value_asks_for_an_accelerator_is_converted(case: str) -> None:
    source = TORCH + ACCELERATOR[case]
    expected = source.replace("y.cuda()", "y.npu()").replace("x.is_cuda", "x.is_npu").replace("torch.cuda", "torch.npu")
    assert converted(source) == expected.replace("'cuda'", "'npu'")


def test_a_value_for_both_is_converted_and_the_kernel_is_named() -> None:
    source = TORCH + (
        "HAS = torch.cuda.is_available()\ndevice = 'cuda' if HAS else 'cpu'\n"
        "def f(x):\n    if HAS:\n        return nms_cuda(x)\n    return ref(x)\n"
    )
    assert "HAS = torch.npu.is_available()\ndevice = 'npu' if HAS" in converted(source)
    named = [each for each in findings(source, "JM108") if not each.evidence.get("applied")]
    assert [(each.where.line, "nms_cuda" in each.message) for each in named] == [(5, True)]


CONDITION = "'cuda' if torch.cuda.is_available() else ('mps' if torch.backends.mps.is_available() else 'cpu')"
NPU = CONDITION.replace("cuda", "npu")

WHOLE = {
    f"def pick():\n    return {CONDITION}\n": f"def pick():\n    return {NPU}\n",
    f"where = {CONDITION}\n": f"where = {NPU}\n",
    "def pick(a):\n    return 'mps' if a else 'cuda' if torch.cuda.is_available() else None\n": (
        "def pick(a):\n    return 'mps' if a else 'npu' if torch.npu.is_available() else None\n"
    ),
    "def pick():\n    return f or ('cuda' if torch.cuda.is_available() else None)\n": (
        "def pick():\n    return f or ('npu' if torch.npu.is_available() else None)\n"
    ),
    "d = torch.device('cuda')\nif d.type == 'cuda':\n    g()\n": (
        "d = torch.device('npu')\nif d.type == 'npu':\n    g()\n"
    ),
    "class A:\n    def __init__(self):\n        self.d = torch.device('cuda')\n"
    "    def f(self):\n        return self.d.type == 'cuda'\n": (
        "class A:\n    def __init__(self):\n        self.d = torch.device('npu')\n"
        "    def f(self):\n        return self.d.type == 'npu'\n"
    ),
    "def f(q: torch.device):\n    return q.type == 'cuda'\n": "def f(q: torch.device):\n    return q.type == 'npu'\n",
    "d = x.device\nif d.type == 'cuda':\n    g()\n": "d = x.device\nif d.type == 'npu':\n    g()\n",
    "d = torch.device('cuda')\nif str(d).startswith('cuda'):\n    g()\n": (
        "d = torch.device('npu')\nif str(d).startswith('npu'):\n    g()\n"
    ),
    "target = 'cuda'\nif not torch.cuda.is_available():\n    target = 'cpu'\n": (
        "target = 'npu'\nif not torch.npu.is_available():\n    target = 'cpu'\n"
    ),
}


@pytest.mark.parametrize("source", WHOLE)
def test_no_line_is_converted_by_half(source: str) -> None:
    assert converted(TORCH + source) == TORCH + WHOLE[source]
    assert "'cuda'" not in agnostic(TORCH + source)


@pytest.mark.parametrize(
    "source",
    [
        "TABLE = {'cuda': 1, 'npu': 2}\ndef f(device):\n    return TABLE[device.type]\n",
        "BACK = {'cuda': 'nccl', 'npu': 'hccl', 'cpu': 'gloo'}\n",
        "choices = ['cpu', 'cuda', 'npu']\n",
        "def f(device):\n    return {'cuda': a.cuda, 'npu': a.npu}[device.type]\n",
        (
            "def f(device):\n    match device.type:\n        case 'cuda':\n            x.cuda()\n"
            "        case 'npu':\n            x.npu()\n"
        ),
        "def f(d):\n    if d == 'cuda':\n        return x.cuda()\n    if d == 'npu':\n        return x.npu()\n",
    ],
)
def test_code_with_an_entry_for_the_npu_keeps_cudas(source: str) -> None:
    assert converted(TORCH + source, unsafe=True) == TORCH + source
    assert agnostic(TORCH + source, unsafe=True) == TORCH + source


AUTOCAST = (
    "def f(fn, x):\n    on, kind = torch.is_autocast_enabled(), torch.get_autocast_gpu_dtype()\n"
    "    torch.set_autocast_enabled(on)\n    torch.set_autocast_gpu_dtype(kind)\n"
    "    with torch.cuda.amp.autocast(on, kind):\n        return fn(x)\n"
)


def test_autocasts_state_is_that_of_the_new_device() -> None:
    after = converted(TORCH + AUTOCAST)
    assert "torch.is_autocast_enabled('npu'), torch.get_autocast_dtype('npu')" in after
    assert "torch.set_autocast_enabled('npu', on)\n    torch.set_autocast_dtype('npu', kind)" in after
    assert "torch.get_autocast_dtype(DEVICE_TYPE)" in agnostic(TORCH + AUTOCAST)


@pytest.mark.parametrize(
    "source",
    [
        "torch.is_autocast_enabled('cpu')\n",
        "torch.set_autocast_enabled('cpu', True)\n",
    ],
)
def test_autocasts_state_of_a_named_device_stays(source: str) -> None:
    assert converted(TORCH + source) == TORCH + source


def test_a_state_of_autocast_that_is_passed_on_is_reported() -> None:
    source = (
        TORCH + "from torch import get_autocast_gpu_dtype\nf = torch.is_autocast_enabled\nget_autocast_gpu_dtype()\n"
    )
    assert converted(source) == source
    assert [each.where.line for each in findings(source, "JM106")] == [3, 4]
