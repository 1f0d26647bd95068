"""Modules, autograd, attention and recurrent layers on the emulated NPU against the CPU."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from jumar.device import DevicePlan, activate

activate(DevicePlan(real="never", numerics="exact", unsupported="fallback"))


def run(module: nn.Module, *inputs: torch.Tensor) -> list[torch.Tensor]:
    torch.manual_seed(3)
    moving = [t.detach().requires_grad_(t.is_floating_point()) for t in inputs]
    output = module(*moving)
    output = output[0] if isinstance(output, tuple) else output
    output.square().sum().backward()
    gradients = [p.grad for p in module.parameters()] + [t.grad for t in moving if t.grad is not None]
    return [t.detach().cpu() for t in (output, *gradients)]


EXACT = {
    "linear": (nn.Linear(4, 3), (2, 4)),
    "linear 3d": (nn.Linear(4, 3), (2, 5, 4)),
    "conv1d": (nn.Conv1d(4, 6, 3, padding=1, groups=2), (2, 4, 9)),
    "conv2d": (nn.Conv2d(3, 4, 3, stride=2, padding="valid", dilation=2), (2, 3, 12, 12)),
    "conv transpose": (nn.ConvTranspose2d(3, 4, 3, stride=2, output_padding=1), (2, 3, 5, 5)),
    "conv3d": (nn.Conv3d(2, 3, 2), (1, 2, 4, 4, 4)),
    "batch norm": (nn.BatchNorm2d(3), (4, 3, 5, 5)),
    "batch norm eval": (nn.BatchNorm2d(3).eval(), (4, 3, 5, 5)),
    "group norm": (nn.GroupNorm(2, 4), (2, 4, 6)),
    "instance norm": (nn.InstanceNorm2d(3, affine=True), (2, 3, 4, 4)),
    "layer norm": (nn.LayerNorm(6), (3, 6)),
    "rms norm": (nn.RMSNorm(6), (3, 6)),
    "pooling": (nn.Sequential(nn.MaxPool2d(2), nn.AvgPool2d(2), nn.AdaptiveAvgPool2d(1)), (2, 3, 9, 9)),
    "dropout": (nn.Sequential(nn.Dropout(0.3), nn.Dropout2d(0.3), nn.AlphaDropout(0.2)), (2, 3, 4, 4)),
    "activations": (nn.Sequential(nn.GELU(), nn.SiLU(), nn.ELU(), nn.PReLU(), nn.Softplus(), nn.Hardswish()), (3, 5)),
    "upsampling": (nn.Upsample(scale_factor=2, mode="bilinear"), (1, 2, 3, 3)),
    "pixel shuffle": (nn.PixelShuffle(2), (1, 8, 3, 3)),
    "padding": (nn.Sequential(nn.ReflectionPad2d(1), nn.ConstantPad2d(1, 2.0)), (1, 2, 4, 4)),
    "bilinear": (nn.Bilinear(3, 3, 2), (4, 3), (4, 3)),
}


@pytest.mark.parametrize("name", EXACT)
def test_a_module_gives_the_cpus_bits_forward_and_backward(name):
    module, *shapes = EXACT[name]
    torch.manual_seed(1)
    inputs = [torch.randn(shape) for shape in shapes]
    moved = copy.deepcopy(module).npu()
    for expected, actual in zip(run(module, *inputs), run(moved, *[t.npu() for t in inputs]), strict=True):
        assert torch.equal(expected, actual)


CLOSE = {
    "lstm": (nn.LSTM(4, 5, num_layers=2, bidirectional=True, batch_first=True), (2, 7, 4)),
    "gru": (nn.GRU(4, 5, num_layers=2, dropout=0.0), (7, 2, 4)),
    "rnn": (nn.RNN(4, 5, nonlinearity="relu"), (7, 2, 4)),
    "lstm cell": (nn.LSTMCell(4, 5, bias=False), (2, 4)),
    "gru cell": (nn.GRUCell(4, 5), (2, 4)),
    "transformer": (nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True), (2, 5, 8)),
    "spectral norm": (nn.utils.parametrizations.spectral_norm(nn.Linear(4, 3)), (2, 4)),
}


@pytest.mark.parametrize("name", CLOSE)
def test_a_module_that_pytorch_composes_otherwise_on_accelerators_agrees(name):
    module, shape = CLOSE[name]
    torch.manual_seed(1)
    x = torch.randn(shape)
    moved = copy.deepcopy(module).npu()
    for expected, actual in zip(run(module, x), run(moved, x.npu()), strict=True):
        torch.testing.assert_close(expected, actual)


@pytest.mark.parametrize("module", [nn.LSTM(3, 2), nn.GRU(3, 2)], ids=["lstm", "gru"])
def test_the_fused_cells_have_right_first_and_second_derivatives(module):
    module = module.double().npu()
    x = torch.randn(3, 2, 3, dtype=torch.float64, device="npu", requires_grad=True)
    assert torch.autograd.gradcheck(lambda t: module(t)[0], x)
    assert torch.autograd.gradgradcheck(lambda t: module(t)[0], x)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"is_causal": True},
        {"attn_mask": torch.rand(6, 6) > 0.3},
        {"attn_mask": torch.rand(6, 6)},
        {"dropout_p": 0.2},
        {"scale": 0.3},
    ],
    ids=lambda options: "-".join(options) or "plain",
)
def test_attention_gives_the_cpus_bits(options):
    results = []
    for device in ("cpu", "npu"):
        torch.manual_seed(0)
        q, k, v = (torch.randn(2, 2, 6, 8).to(device).requires_grad_() for _ in range(3))
        moved = {name: t.to(device) if isinstance(t, torch.Tensor) else t for name, t in options.items()}
        output = functional.scaled_dot_product_attention(q, k, v, **moved)
        output.square().sum().backward()
        results.append([t.detach().cpu() for t in (output, q.grad, k.grad, v.grad)])
    for expected, actual in zip(*results, strict=True):
        assert torch.equal(expected, actual)


def test_moving_a_module_keeps_its_parameters_identity_gradients_and_ties():
    module = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    module[1].weight = module[0].weight
    first = module[0].weight
    optimizer = torch.optim.SGD(module.parameters(), lr=0.5)
    module(torch.ones(1, 3)).sum().backward()
    gradient = first.grad.clone()
    module.to("npu")
    assert module[0].weight is module[1].weight is first
    assert (first.device.type, type(first), first.is_leaf) == ("npu", nn.Parameter, True)
    assert torch.equal(first.grad.cpu(), gradient)
    before = first.detach().clone()
    optimizer.step()
    assert not torch.equal(before, first)
    assert module.cpu()[0].weight is first
    assert first.device.type == "cpu"


def test_hooks_and_the_class_of_a_parameter_survive_the_move_of_its_module():
    module, seen = nn.Linear(3, 2), []
    module.weight.register_hook(lambda gradient: seen.append(gradient.device.type))
    module.to("npu")(torch.ones(1, 3).npu()).sum().backward()
    assert seen == ["npu"]
    for lazy in (nn.LazyLinear(2).npu(), nn.LazyLinear(2).to("npu")):
        assert isinstance(lazy.weight, nn.UninitializedParameter)
        assert lazy(torch.ones(1, 3).npu()).device.type == "npu"


def test_data_may_be_assigned_across_devices():
    parameter = nn.Parameter(torch.ones(2))
    (parameter * 2).sum().backward()
    on_npu = torch.full((3,), 4.0).npu()
    parameter.data, parameter.grad = on_npu, None
    (parameter * 2).sum().backward()
    assert (str(parameter.device), parameter.data_ptr(), parameter.is_leaf) == ("npu:0", on_npu.data_ptr(), True)
    assert parameter.grad.tolist() == [2.0] * 3
    parameter.data = torch.zeros(1)
    assert (parameter.device.type, on_npu.tolist()) == ("cpu", [4.0] * 3)
    with pytest.raises(RuntimeError, match="incompatible tensor type"):
        parameter.data = torch.zeros(2).npu().cpu().to_sparse()


def test_state_dicts_load_into_recurrent_modules():
    source, target = nn.LSTM(3, 4), nn.LSTM(3, 4).npu()
    target.load_state_dict(source.state_dict())
    assert torch.equal(source.weight_ih_l0, target.weight_ih_l0.cpu())


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return 3 * x**2 * gradient


def test_custom_functions_hooks_and_double_backward():
    x = torch.tensor([2.0], device="npu", requires_grad=True)
    seen = []
    x.register_hook(lambda gradient: seen.append(gradient.device.type))
    (first,) = torch.autograd.grad(Cube.apply(x).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    assert (first.item(), second.item(), seen) == (12.0, 12.0, ["npu", "npu"])


def test_checkpointing_draws_the_same_dropout_again():
    gradients = []
    for use in (False, True):
        torch.manual_seed(0)
        x = torch.ones(64, device="npu", requires_grad=True)
        layer = nn.Dropout(0.5)
        y = checkpoint(layer, x, use_reentrant=False, preserve_rng_state=True) if use else layer(x)
        torch.rand(3, device="npu")
        y.square().sum().backward()
        gradients.append(x.grad.cpu())
    assert torch.equal(*gradients)


def test_losses_agree():
    torch.manual_seed(0)
    scores, labels = torch.randn(6, 5), torch.randint(0, 5, (6,))
    pairs = [
        (functional.cross_entropy, (scores, labels), {"label_smoothing": 0.1}),
        (functional.nll_loss, (scores.log_softmax(1), labels), {}),
        (functional.binary_cross_entropy_with_logits, (scores, torch.rand(6, 5)), {}),
        (functional.kl_div, (scores.log_softmax(1), torch.rand(6, 5)), {"reduction": "batchmean"}),
        (functional.smooth_l1_loss, (scores, torch.rand(6, 5)), {}),
        (functional.ctc_loss, (torch.randn(7, 2, 5).log_softmax(2), torch.randint(1, 5, (2, 3))), {}),
    ]
    for function, tensors, options in pairs:
        extra = (torch.tensor([7, 7]), torch.tensor([3, 2])) if function is functional.ctc_loss else ()
        expected = function(*tensors, *extra, **options)
        actual = function(*[t.npu() for t in tensors], *extra, **options)
        assert torch.equal(expected, actual.cpu()), function.__name__


def test_embeddings():
    weight, ids = torch.randn(7, 3), torch.tensor([[1, 2, 6], [0, 0, 3]])
    assert torch.equal(functional.embedding(ids, weight), functional.embedding(ids.npu(), weight.npu()).cpu())
    assert torch.equal(
        functional.embedding_bag(ids, weight, mode="mean"),
        functional.embedding_bag(ids.npu(), weight.npu(), mode="mean").cpu(),
    )


def test_packed_sequences():
    x = torch.randn(3, 5, 4)
    lengths = torch.tensor([5, 3, 2])
    module = nn.GRU(4, 6, batch_first=True)
    moved = copy.deepcopy(module).npu()
    packed = nn.utils.rnn.pack_padded_sequence(x.npu(), lengths, batch_first=True)
    actual, _ = nn.utils.rnn.pad_packed_sequence(moved(packed)[0], batch_first=True)
    expected, _ = nn.utils.rnn.pad_packed_sequence(
        module(nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True))[0], batch_first=True
    )
    torch.testing.assert_close(expected, actual.cpu())
    assert packed.is_npu
