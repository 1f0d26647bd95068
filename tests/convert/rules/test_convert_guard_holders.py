"""The outcome of a test for CUDA is followed through what wraps, holds and passes it, and into helper functions."""

from __future__ import annotations

import time

import pytest
from convert_cases import agnostic, converted, findings, outcome

TORCH = "import torch\n"
ELSE = "        return _C.op(x)\n    return ref(x)\n"

KERNELS = {
    "a lambda": "on = lambda x: x.is_cuda\ndef f(x):\n    return _C.op(x) if on(x) else ref(x)\n",
    "bool": f"def f(x):\n    use = bool(x.is_cuda)\n    if use:\n{ELSE}",
    "all": f"def f(x, y):\n    use = all(t.is_cuda for t in (x, y))\n    if use:\n{ELSE}",
    "all of a list": f"def f(x, *ts):\n    if all([t.is_cuda for t in ts]):\n{ELSE}",
    "all of named ones": f"def f(x, y):\n    if all((x.is_cuda, y.is_cuda)):\n{ELSE}",
    "any not": "def f(*ts):\n    if any(not t.is_cuda for t in ts):\n        return ref(*ts)\n    return _C.op(*ts)\n",
    "a tuple": f"def f(x):\n    use, n = x.is_cuda, x.dim()\n    if use:\n{ELSE}",
    "a key": f"def f(x):\n    how = {{'fast': x.is_cuda}}\n    if how['fast']:\n{ELSE}",
    "a keyword of dict": f"def f(x):\n    how = dict(fast=x.is_cuda)\n    if how.get('fast'):\n{ELSE}",
    "a key that is written": f"def f(x):\n    how = {{}}\n    how['fast'] = x.is_cuda\n    if how['fast']:\n{ELSE}",
    "setattr": f"def f(self, x):\n    setattr(self, 'fast', x.is_cuda)\n    if self.fast:\n{ELSE}",
    "a keyword of a class": f"def f(x):\n    how = Options(fast=x.is_cuda)\n    if how.fast:\n{ELSE}",
    "int": f"def f(x):\n    use = int(x.is_cuda)\n    if use:\n{ELSE}",
    "a comparison with a truth": f"def f(x):\n    if x.is_cuda == True:\n{ELSE}",
    "a comparison with the other truth": "def f(x):\n    return ref(x) if x.is_cuda is False else _C.op(x)\n",
    "a spelled out truth": f"def f(x):\n    use = True if x.is_cuda else False\n    if use:\n{ELSE}",
    "a spelled out opposite": (
        "def f(x):\n    slow = False if x.is_cuda else True\n    return ref(x) if slow else _C.op(x)\n"
    ),
    "a flag set in a branch": f"def f(x):\n    use = False\n    if x.is_cuda:\n        use = True\n    if use:\n{ELSE}",
    "a flag cleared in a branch": (
        f"def f(x):\n    use = True\n    if not x.is_cuda:\n        use = False\n    if use:\n{ELSE}"
    ),
    "an augmented assignment": f"def f(x):\n    use = x.dim() > 1\n    use &= x.is_cuda\n    if use:\n{ELSE}",
    "a walrus that is the test": f"def f(x):\n    if use := x.is_cuda:\n{ELSE}",
    "an attribute of the class": (
        "class A:\n    HAS = torch.cuda.is_available()\n    def f(self, x):\n"
        "        return _C.op(x) if self.HAS else ref(x)\n"
    ),
    "a default": "def f(x, fast=torch.cuda.is_available()):\n    return _C.op(x) if fast else ref(x)\n",
    "a default by name": (
        "HAS = torch.cuda.is_available()\ndef f(x, fast=HAS):\n    return _C.op(x) if fast else ref(x)\n"
    ),
    "an argument of a method": (
        "class A:\n    def g(self, x, fast):\n        return _C.op(x) if fast else ref(x)\n"
        "    def f(self, x):\n        return self.g(x, x.is_cuda)\n"
    ),
    "an argument of a static method": (
        "class A:\n    @staticmethod\n    def g(x, fast):\n        return _C.op(x) if fast else ref(x)\n"
        "    def f(self, x):\n        return self.g(x, x.is_cuda)\n"
    ),
    "a function by getattr": "def f(x):\n    op = getattr(_C, 'run') if x.is_cuda else ref\n    return op(x)\n",
    "a kernel in a function": (
        "def fast(x):\n    return _C.op(x)\ndef f(x):\n    return fast(x) if x.is_cuda else ref(x)\n"
    ),
    "a kernel two functions away": (
        "def low(x):\n    return nms_cuda(x)\ndef fast(x):\n    return low(x)\n"
        "def f(x):\n    if x.is_cuda:\n        return fast(x)\n    return ref(x)\n"
    ),
    "a kernel in a method": (
        "class A:\n    def fast(self, x):\n        return _C.op(x)\n"
        "    def f(self, x):\n        return self.fast(x) if x.is_cuda else ref(x)\n"
    ),
    "a selected function of the file": (
        "def fast(x):\n    return nms_cuda(x)\ndef f(x):\n    op = fast if x.is_cuda else ref\n    return op(x)\n"
    ),
    "a launch": (
        "import triton\n@triton.jit\ndef k(p):\n    pass\n"
        "def f(x):\n    if x.is_cuda:\n        k[(1,)](x)\n        return x\n    return ref(x)\n"
    ),
    "an import under another name": (
        "from ops import nms_cuda as fast\ndef f(x):\n    return fast(x) if x.is_cuda else x\n"
    ),
    "an import by name": (
        "import importlib\nif torch.cuda.is_available():\n    ops = importlib.import_module('nms_cuda')\n"
    ),
    "a build": (
        "from torch.utils.cpp_extension import load as make\n"
        "if torch.cuda.is_available():\n    ops = make('ops', ['ops.cpp'])\n"
    ),
    "a library's operators": "def f(x):\n    return torch.ops.mine.nms(x) if x.is_cuda else ref(x)\n",
    "an assertion": "def f(x):\n    assert x.is_cuda\n    y = x.contiguous()\n    return _C.op(y)\n",
    "an assertion before an import": (
        "try:\n    assert torch.cuda.is_available()\n    import my_cuda_ext as my\nexcept Exception:\n    my = None\n"
    ),
    "a skipped test": (
        "import unittest\n@unittest.skipIf(not torch.cuda.is_available(), 'no')\n"
        "class A(unittest.TestCase):\n    def test_op(self):\n        _C.op(1)\n"
    ),
}


@pytest.mark.parametrize("case", KERNELS)
def test_an_outcome_that_reaches_cuda_only_code_by_a_detour_stays(case: str) -> None:
    source = TORCH + KERNELS[case]
    found = outcome(source, unsafe=True)
    assert found.after.decode() == source
    assert {finding.code for finding in found.findings} >= {"JM108"}


@pytest.mark.parametrize(
    "source",
    [
        "on = lambda x: x.is_cuda\nif on(x):\n    x = x.pin_memory()\n",
        "def f(x):\n    use, n = x.is_cuda, 1\n    return g(x) if use else n\n",
        "def go(x):\n    return _C.op(x.cuda())\nif torch.cuda.is_available():\n    go(x)\n",
        "def helper(x):\n    return x.half()\ndef f(x):\n    return helper(x) if x.is_cuda else x\n",
        "def f(x):\n    return torch.ops.aten.relu(x) if x.is_cuda else x\n",
        "from net import fast as slow\ndef f(x):\n    return slow(x) if x.is_cuda else x\n",
    ],
)
def test_an_outcome_that_reaches_no_cuda_only_code_is_converted(source: str) -> None:
    assert "cuda" not in converted(TORCH + source)
    assert agnostic(TORCH + source) != TORCH + source


@pytest.mark.parametrize(
    "source",
    [
        "OPS = {'cuda': nms_cuda, 'cpu': nms}\ndef f(x):\n    return OPS[x.device.type](x)\n",
        "def f(x):\n    return {'cuda': nms_cuda}.get(x.device.type, nms)(x)\n",
        "def f(x):\n    match x.device.type:\n        case 'cuda':\n            return _C.op(x)\n        case _:\n"
        "            return ref(x)\n",
    ],
)
def test_a_word_that_picks_a_function_for_cuda_stays_and_is_named(source: str) -> None:
    assert converted(TORCH + source) == TORCH + source
    (found,) = findings(TORCH + source, "JM102")
    assert "picks CUDA-only code" in found.message


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("def get():\n    return torch.device('cuda')\nd = get()\nif d.type == 'cuda': ...\n", "d.type == 'npu'"),
        ("t = torch.device('cuda').type\nif t == 'cuda': ...\n", "t == 'npu'"),
        ("class A:\n    def f(self, x):\n        self.t = x.device.type\n        return self.t == 'cuda'\n",
         "self.t == 'npu'"),
        ("d, n = torch.device('cuda'), 3\nif d.type == 'cuda': ...\n", "d.type == 'npu'"),
        ("if (d := torch.device('cuda')).type == 'cuda': ...\n", "(d := torch.device('npu')).type == 'npu'"),
        ("d = 'cuda:0'\nif d.split(':')[0] == 'cuda': ...\n", "d.split(':')[0] == 'npu'"),
    ],
)  # fmt: skip
def test_a_device_is_followed_to_its_test(before: str, after: str) -> None:
    assert after in converted(TORCH + before)


def test_a_type_that_names_the_npu_beside_cuda_keeps_both() -> None:
    note = "Literal['cuda', 'npu', 'cpu']"
    source = f"import torch\nfrom typing import Literal\ndef f(device: {note} = 'cuda'): ...\n"
    assert note in converted(source)
    assert note in agnostic(source)


@pytest.mark.slow
def test_a_condition_of_many_tests_takes_time_that_grows_with_its_length() -> None:
    source = TORCH + "if " + " and ".join(f"x{i}.is_cuda" for i in range(300)) + ":\n    _C.op(x)\n"
    start = time.process_time()
    assert converted(source) == source
    assert time.process_time() - start < 10
