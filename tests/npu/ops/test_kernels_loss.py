"""The gradient of `binary_cross_entropy_with_logits` in halves is rounded once."""

import pytest
import torch
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

from jumar.device import DevicePlan, activate, emulate

activate(DevicePlan(real="never", numerics="exact", unsupported="fallback"))

X, T = torch.randn(40, 6, generator=torch.Generator().manual_seed(5)) * 6, torch.arange(240).reshape(40, 6) % 2
WEIGHT, POSITIVE = torch.linspace(0.5, 9, 6), torch.linspace(0.25, 4, 6)


def gradient(x, reduction="none", **given):
    x = x.clone().requires_grad_()
    loss = functional.binary_cross_entropy_with_logits(x, T.to(x), reduction=reduction, **given)
    loss.sum().backward()
    return loss.detach().cpu(), x.grad.cpu()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("weighted", [False, True])
def test_halves_are_rounded_once(dtype, reduction, weighted):
    given = {"weight": WEIGHT.to(dtype), "pos_weight": POSITIVE.to(dtype)} if weighted else {}
    expected = gradient(X.to(dtype).float(), reduction=reduction, **{k: v.float() for k, v in given.items()})
    with emulate(soc="Ascend910B1"):
        found = gradient(X.to(dtype).npu(), reduction=reduction, **{k: v.npu() for k, v in given.items()})
    assert torch.equal(found[0], expected[0].to(dtype))
    torch.testing.assert_close(found[1], expected[1].to(dtype), atol=0, rtol=torch.finfo(dtype).eps)


@pytest.mark.parametrize(("dtype", "numerics"), [(torch.float32, "strict"), (torch.float16, "exact")])
def test_float32_and_exact_numerics_keep_pytorchs_formula(dtype, numerics):
    expected = gradient(X.to(dtype))
    with emulate(soc="Ascend910B1", numerics=numerics):
        found = gradient(X.to(dtype).npu())
    assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))


def test_a_target_that_learns_gets_its_gradient():
    with emulate(soc="Ascend910B1"):
        target = torch.full((3,), 0.5).half().npu().requires_grad_()
        functional.binary_cross_entropy_with_logits(torch.ones(3).half().npu(), target, reduction="sum").backward()
    assert target.grad.tolist() == [-1.0, -1.0, -1.0]


class _Seen(TorchDispatchMode):
    """Lists what an observer sees."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(func.name())
        return func(*args, **(kwargs or {}))


def normalized_loss(x, y):
    return functional.binary_cross_entropy_with_logits(functional.group_norm(x, 2), y)


@pytest.mark.parametrize("numerics", ["strict", "exact"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_observers_see_the_operators_and_not_their_parts(numerics, dtype):
    with emulate(soc="Ascend910B1", numerics=numerics):
        x = torch.randn(2, 4, 3, 3, dtype=dtype).npu().requires_grad_()
        with _Seen() as seen:
            normalized_loss(x, torch.zeros_like(x)).backward()
    norm = {"aten::native_group_norm", "aten::native_group_norm_backward"}
    assert norm | {"aten::binary_cross_entropy_with_logits"} <= set(seen.names)
    assert not {"aten::empty", "aten::empty.memory_format", "aten::log_sigmoid"} & set(seen.names)


@pytest.mark.parametrize("numerics", ["strict", "exact"])
def test_functional_transforms_see_them_too(numerics):
    x, y = torch.randn(2, 4, 3, 3), torch.rand(2, 4, 3, 3)
    expected = torch.func.grad(normalized_loss)(x, y)
    with emulate(soc="Ascend910B1", numerics=numerics):
        a, b = x.npu(), y.npu()
        torch.testing.assert_close(torch.func.grad(normalized_loss)(a, b).cpu(), expected)
        torch.testing.assert_close(torch.func.vmap(normalized_loss)(a[None], b[None])[0].cpu(), normalized_loss(x, y))
        torch.testing.assert_close(torch.func.functionalize(normalized_loss)(a, b).cpu(), normalized_loss(x, y))
