"""Which operators run, fall back, warn and refuse: by chip and by policy."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import jumar
from jumar.device import DevicePlan, activate
from jumar.npu import listen
from jumar.npu.core.plans import PLANS
from jumar.npu.dispatch import policy
from jumar.npu.dispatch.alternatives import ALTERNATIVES, alternative

activate(DevicePlan(real="never", numerics="exact", unsupported="fallback"))

CAUTION = (
    "CAUTION: The operator 'aten::fmax.out' is not currently supported on the NPU backend and will fall back to run on "
    "the CPU. This may have performance implications."
)


@pytest.fixture(autouse=True)
def nothing_said_yet(monkeypatch):
    monkeypatch.delenv("TORCH_NPU_FALLBACK_CPU_DISABLE", raising=False)
    policy.forget()


def pair():
    return torch.tensor([1.0, float("nan"), 3.0]).npu(), torch.tensor([2.0, 4.0, float("nan")]).npu()


def test_an_operator_without_kernel_runs_on_the_host_after_one_warning_at_the_users_line():
    with jumar.emulate(), warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        results = [torch.fmax(*pair()) for _ in range(3)]
    assert [str(warning.message) for warning in said] == [CAUTION]
    assert (said[0].category, said[0].filename) == (UserWarning, __file__)
    assert results[-1].device.type == "npu"
    assert results[-1].tolist() == [2.0, 4.0, 3.0]


def test_a_change_of_options_does_not_repeat_the_warning():
    with jumar.emulate():
        with pytest.warns(UserWarning, match="fmax"):
            torch.fmax(*pair())
        torch.npu.matmul.allow_hf32 = True
        torch.fmax(*pair())


def test_a_fallback_is_two_transfers():
    x, y = pair()
    events = []
    with jumar.emulate(), listen(events.append), pytest.warns(UserWarning, match="CAUTION"):
        torch.fmax(x, y)
    assert [(event.operator, event.transfer, event.transfer_bytes) for event in events] == [
        ("aten::_to_cpu", "device-to-host", 24),
        ("aten::_to_copy", "host-to-device", 12),
        ("aten::fmax", "", 0),
    ]
    first, second, _ = events
    assert [t.device.type for t in (*first.args[0], *first.result)] == ["npu", "npu", "cpu", "cpu"]
    assert (second.args[0].device.type, second.result.device.type) == ("cpu", "npu")


def test_the_policy_fallback_says_nothing():
    with jumar.emulate(unsupported="fallback"):
        assert torch.fmax(*pair()).tolist() == [2.0, 4.0, 3.0]


def test_the_policy_error_names_backend_operator_and_what_to_use_instead():
    with jumar.emulate(unsupported="error"), pytest.raises(RuntimeError) as caught:
        torch.fmax(*pair())
    text = str(caught.value)
    assert text.startswith("Could not run 'aten::fmax' with arguments from the 'npu' backend.")
    assert "Ascend910B1 has no kernel for it. It calls aten::fmax.out, which has no NPU kernel." in text
    assert text.endswith(ALTERNATIVES["fmax"])


def test_the_vendors_switch_forbids_falling_back(monkeypatch):
    monkeypatch.setenv("TORCH_NPU_FALLBACK_CPU_DISABLE", "1")
    with jumar.emulate(), pytest.raises(RuntimeError, match="CPU fallback is disabled by TORCH_NPU_FALLBACK_CPU_DIS"):
        torch.fmax(*pair())
    with jumar.emulate():
        assert (torch.ones(2).npu() + 1).tolist() == [2.0, 2.0]


@pytest.mark.parametrize("unsupported", ["warn", "error"])
def test_an_operator_that_the_chip_refuses_raises(unsupported):
    x, w = torch.randn(1, 2, 4, 4, 4).npu(), torch.randn(3, 2, 2, 2, 2).npu()
    with (
        jumar.emulate("Ascend950", unsupported=unsupported),
        pytest.raises(RuntimeError, match="Ascend950 has no kernel"),
    ):
        torch.ops.aten.slow_conv3d_forward(x, w, [2, 2, 2], None, [1, 1, 1], [0, 0, 0])


def test_what_the_tables_doubt_runs_after_a_warning_and_is_an_error_on_request():
    scale, tracker, found = torch.ones(1).npu(), torch.zeros(1, dtype=torch.int32).npu(), torch.zeros(1).npu()
    with jumar.emulate("Ascend910A"), pytest.warns(UserWarning, match="only an NPU can tell"):
        torch._amp_update_scale_(scale, tracker, found, 2.0, 0.5, 1)
    assert scale.item() == 2.0
    with jumar.emulate("Ascend910A", unsupported="error"), pytest.raises(RuntimeError, match="Could not run"):
        torch._amp_update_scale_(scale, tracker, found, 2.0, 0.5, 1)


def test_a_composition_is_allowed_in_silence():
    assert policy.verdict("aten::gelu").action == "device"
    with jumar.emulate(unsupported="error"):
        F.gelu(torch.randn(3).npu())


def test_an_operator_of_another_library_falls_back_like_one_of_pytorchs():
    library = torch.library.Library("policytest", "DEF")
    library.define("twice(Tensor x) -> Tensor")
    library.impl("twice", lambda x: x * 2, "CPU")
    x = torch.ones(2).npu()
    with jumar.emulate(), pytest.warns(UserWarning, match="'policytest::twice' is not currently supported"):
        assert torch.ops.policytest.twice(x).tolist() == [2.0, 2.0]
    with jumar.emulate(unsupported="error"), pytest.raises(RuntimeError, match="Could not run 'policytest::twice'"):
        torch.ops.policytest.twice(x)


def train(model, inputs, **options):
    model = model.npu()
    optimizer = torch.optim.AdamW(model.parameters(), **options)
    for _ in range(2):
        optimizer.zero_grad()
        output = model(*inputs)
        loss = (output[0] if isinstance(output, tuple) else output).float().square().mean()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return loss.item()


class Convolutional(nn.Sequential):
    def __init__(self):
        super().__init__(
            nn.Conv2d(3, 8, 7, 2, 3), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1),
            nn.Conv2d(8, 8, 3, groups=2), nn.GroupNorm(2, 8), nn.SiLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
            nn.Dropout(0.1), nn.Linear(8, 4), nn.LogSoftmax(1),
        )  # fmt: skip


class Attentive(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(20, 16, padding_idx=0)
        self.encode = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, activation="gelu")
        self.head = nn.Linear(16, 20)

    def forward(self, tokens):
        return self.head(self.encode(self.embed(tokens), src_key_padding_mask=tokens == 0))


MODELS = {
    "convolutional": (Convolutional, lambda: (torch.randn(2, 3, 24, 24).npu(),)),
    "attentive": (Attentive, lambda: (torch.randint(1, 20, (2, 6)).npu(),)),
    "lstm": (lambda: nn.LSTM(4, 8, 2, bidirectional=True), lambda: (torch.randn(5, 2, 4).npu(),)),
    "gru": (lambda: nn.GRU(4, 8), lambda: (torch.randn(5, 2, 4).npu(),)),
}


@pytest.mark.parametrize("soc", ["Ascend910B1", "Ascend910_9391", "Ascend910A", "Ascend310P3"])
@pytest.mark.parametrize("name", MODELS)
def test_everyday_models_train_without_a_word(soc, name):
    make, inputs = MODELS[name]
    with jumar.emulate(soc):
        torch.manual_seed(0)
        losses = [train(make(), inputs(), foreach=foreach) for foreach in (True, False)]
    assert all(0 < loss < 100 for loss in losses)


def test_fused_adam_falls_back_and_fused_adamw_does_not():
    parameter = nn.Parameter(torch.ones(2).npu())
    parameter.grad = torch.ones(2).npu()
    with jumar.emulate():
        torch.optim.AdamW([parameter], fused=True).step()
        with pytest.warns(UserWarning, match="'aten::_fused_adam_'"):
            torch.optim.Adam([parameter], fused=True).step()


def test_native_operators_pay_nothing():
    with jumar.emulate(numerics="exact"):
        torch.ones(2).npu().exp()
        assert PLANS["aten::exp"].call.__name__ == "call_boxed"


def test_the_tables_of_the_nearest_older_pytorch_are_read(monkeypatch):
    for version, expected in (("2.13.0+cpu", "2.13"), ("2.12.1", "2.12"), ("2.9.0", "2.7"), ("2.6.0", "2.7")):
        monkeypatch.setattr(torch, "__version__", version)
        policy.tables_version.cache_clear()
        assert policy.tables_version() == expected
    policy.tables_version.cache_clear()


@pytest.mark.parametrize(
    ("operator", "start"),
    [
        ("aten::linalg_eig", "Move the matrix to the host"),
        ("aten::digamma_", "Compute it on the host"),
        ("aten::special_zeta", "Compute it on the host"),
        ("vision::nms", "Run it on the host"),
    ],
)
def test_every_operator_has_an_alternative(operator, start):
    assert alternative(operator).startswith(start)


def test_alternatives_are_sentences():
    assert [name for name, text in ALTERNATIVES.items() if not text.endswith(".")] == []


def test_the_alternatives_give_the_same_values():
    x, y = torch.randn(50), torch.randn(50)
    delta = 0.7
    assert torch.allclose(F.huber_loss(x, y, delta=delta), F.smooth_l1_loss(x, y, beta=delta) * delta)
    assert torch.allclose(torch.hypot(x, y), (x * x + y * y).sqrt())
    assert torch.equal(torch.copysign(x, y), torch.where(y < 0, -x.abs(), x.abs()))
    values = torch.tensor([0.5])
    assert torch.equal(torch.heaviside(x, values), torch.where(x == 0, values, (x > 0).to(values.dtype)))
