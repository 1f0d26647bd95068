"""Layers of `torch_npu.contrib.module`: the same values and gradients as plain PyTorch on the CPU."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from jumar.device import DevicePlan, activate
from jumar.npu.api.contrib import module
from jumar.npu.api.contrib.module import channel_shuffle, focus
from jumar.npu.core.events import listen

activate(DevicePlan(real="never", numerics="exact", unsupported="fallback"))

Tensor = torch.Tensor


def both(
    layer: Callable[..., Any], reference: Callable[..., Any], *inputs: Tensor
) -> tuple[list[Tensor], list[Tensor]]:
    """Return results and gradients of the inputs, of `layer` on the npu and of `reference` on the CPU."""
    found = []
    for device, function in (("npu", layer), ("cpu", reference)):
        leaves = [tensor.detach().to(device).requires_grad_(tensor.is_floating_point()) for tensor in inputs]
        results = function(*leaves)
        results = results if isinstance(results, tuple) else (results,)
        weights = [torch.linspace(-1, 1, result.numel()).view(result.shape) for result in results]
        sum((result * weight.to(device)).sum() for result, weight in zip(results, weights, strict=True)).backward()
        gradients = [leaf.grad for leaf in leaves if leaf.grad is not None]
        found.append([tensor.detach().cpu() for tensor in (*results, *gradients)])
    return found


def shuffled(x1: Tensor, x2: Tensor) -> Tensor:
    return functional.channel_shuffle(torch.cat((x1, x2), 1), 2)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("shape", [(2, 4, 3, 5), (2, 4, 6, 1)])
def test_channel_shuffle_without_split_is_the_plain_shuffle(training, shape):
    layer = module.ChannelShuffle(8, split_shuffle=False).to("npu").train(training)
    actual, expected = both(layer, shuffled, torch.randn(shape), torch.randn(shape))
    torch.testing.assert_close(actual, expected, rtol=0, atol=0)


@pytest.mark.parametrize("training", [True, False])
def test_channel_shuffle_with_split_is_the_plain_shuffle_in_halves(training):
    layer = module.ChannelShuffle(8).to("npu").train(training)
    actual, expected = both(
        layer, lambda x1, x2: shuffled(x1, x2).chunk(2, 1), torch.randn(2, 4, 3, 5), torch.randn(2, 4, 3, 5)
    )
    torch.testing.assert_close(actual, expected, rtol=0, atol=0)


def test_channel_shuffle_takes_its_indices_to_the_inputs_device_once():
    layer = module.ChannelShuffle(8)
    x = torch.randn(2, 4, 3, 5)
    layer(x, x)
    assert (layer.checked, layer.fp_index1.dtype) == (True, torch.int64)
    moved = module.ChannelShuffle(8)
    moved(x.to("npu"), x.to("npu"))
    assert (moved.checked, moved.fp_index1.dtype, moved.fp_index1.device.type) == (False, torch.int32, "npu")
    moved(x.to("npu"), x.to("npu"))
    assert moved.checked
    assert list(moved.state_dict()) == []


def test_channel_shuffle_warns_of_more_than_two_groups():
    with pytest.warns(UserWarning, match="4 groups has the gradients of two groups"):
        layer = module.ChannelShuffle(8, groups=4, split_shuffle=False)
    x = torch.randn(2, 4, 3, 3).to("npu")
    assert torch.equal(functional.channel_shuffle(torch.cat((x, x), 1).cpu(), 4), layer(x, x).cpu())


def test_the_backward_of_channel_shuffle_selects_by_index():
    layer = module.ChannelShuffle(8, split_shuffle=False).to("npu")
    x1, x2 = (torch.randn(2, 4, 3, 5).to("npu").requires_grad_() for _ in range(2))
    result = layer(x1, x2)
    operators: list[str] = []
    with listen(lambda event: operators.append(event.operator)):
        result.backward(torch.ones_like(result))
    assert operators.count("aten::index_select") == 2
    assert "aten::index_add" not in operators


@pytest.mark.parametrize("half", [True, False])
def test_the_functions_of_channel_shuffle_take_indices(half):
    x1, x2 = torch.randn(2, 2, 3).to("npu"), torch.randn(2, 2, 3).to("npu")
    forth = torch.tensor([0, 2, 1, 3]).to("npu")
    whole = torch.cat((x1, x2), 1)[:, [0, 2, 1, 3]]
    if half:
        halves = channel_shuffle.indexselect_half_implementation_forward(x1, x2, forth[:2], forth[2:])
        assert torch.equal(whole, torch.cat(halves, 1))
    else:
        assert torch.equal(whole, channel_shuffle.indexselect_full_implementation_forward(x1, x2, forth))


@pytest.mark.parametrize(("name", "plain"), [("Mish", functional.mish), ("SiLU", functional.silu)])
def test_activations_are_pytorchs_and_deprecated(name, plain):
    with pytest.warns(FutureWarning, match=f"torch_npu.contrib.module.{name} is deprecated"):
        layer = getattr(module, name)()
    actual, expected = both(layer, plain, torch.randn(3, 4) * 3)
    torch.testing.assert_close(actual, expected)


def test_swish_is_silu():
    assert module.Swish is module.SiLU


def test_bilstm_is_a_bidirectional_lstm():
    torch.manual_seed(0)
    with pytest.warns(FutureWarning, match="torch_npu.contrib.BiLSTM is deprecated"):
        layer = module.BiLSTM(5, 4)
    plain = nn.LSTM(5, 4, bidirectional=True)
    state = {f"fw_rnn.{name}": value for name, value in plain.state_dict().items() if not name.endswith("_reverse")}
    state |= {
        f"bw_rnn.{name.removesuffix('_reverse')}": value
        for name, value in plain.state_dict().items()
        if name.endswith("_reverse")
    }
    layer.load_state_dict(state)
    actual, expected = both(layer.to("npu"), lambda x: plain(x)[0], torch.randn(7, 3, 5))
    torch.testing.assert_close(actual, expected)
    torch.testing.assert_close(layer.bw_rnn.weight_hh_l0.grad.cpu(), plain.weight_hh_l0_reverse.grad)


@pytest.mark.parametrize("act", [True, False])
def test_focus_stacks_every_second_pixel(act):
    torch.manual_seed(0)
    layer = module.Focus(2, 5, k=3, act=act)
    plain = copy.deepcopy(layer.conv)

    def reference(x: Tensor) -> Tensor:
        # pixel_unshuffle puts the four images of a channel together; Focus the channels of an image.
        stacked = functional.pixel_unshuffle(x, 2).view(-1, 2, 2, 2, *(size // 2 for size in x.shape[2:]))
        stacked = stacked.permute(0, 3, 2, 1, 4, 5).flatten(1, 3)
        result = plain.bn(functional.conv2d(stacked, plain.conv.weight, padding=1))
        return functional.leaky_relu(result, 0.1) if act else result

    actual, expected = both(layer.to("npu"), reference, torch.randn(2, 2, 6, 8))
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)


def test_the_convolution_of_focus_fuses_its_normalization():
    layer = focus.Conv(3, 4, k=(3, 5)).to("npu").eval()
    x = torch.randn(1, 3, 6, 6).to("npu")
    scale = 1 / (1 + layer.bn.eps) ** 0.5
    torch.testing.assert_close(layer(x), nn.functional.leaky_relu(layer.conv(x) * scale, 0.1))
    torch.testing.assert_close(layer.fuseforward(x), nn.functional.leaky_relu(layer.conv(x), 0.1))


def test_autopad_keeps_a_given_padding():
    assert [
        focus.autopad(3),
        focus.autopad(5),
        focus.autopad([3, 5]),
        focus.autopad(5, 0),
        focus.autopad(3, (4, 4)),
    ] == [1, 2, [1, 2], 0, (4, 4)]


# Prefetcher -------------------------------------------------------------------------------------------------


def test_prefetcher_gives_the_loaders_batches_on_the_device_and_then_none():
    data = torch.utils.data.TensorDataset(torch.arange(10.0).view(5, 2), torch.arange(5))
    loader = torch.utils.data.DataLoader(data, batch_size=2)
    prefetcher = module.Prefetcher(loader)
    found = []
    inputs, targets = prefetcher.next()
    while inputs is not None:
        assert inputs.device.type == targets.device.type == "npu"
        found.append((inputs.tolist(), targets.tolist()))
        inputs, targets = prefetcher.next()
    assert found == [(inputs.tolist(), targets.tolist()) for inputs, targets in loader]
    assert prefetcher.next() == (None, None)


def test_prefetcher_copies_ahead_on_the_given_stream():
    npu: Any = torch.npu
    stream, taken = npu.Stream(), []

    def batches():
        for number in range(3):
            taken.append(number)
            yield torch.tensor([number]), torch.tensor([number])

    prefetcher = module.Prefetcher(batches(), stream=stream)
    assert prefetcher.stream is stream
    assert taken == [0]
    assert prefetcher.next()[0].tolist() == [0]
    assert taken == [0, 1]


def test_prefetcher_of_an_empty_loader_has_nothing():
    assert module.Prefetcher([]).next() == (None, None)


# Stochastic depth and dropout -------------------------------------------------------------------------------


@pytest.fixture
def stocks():
    """Empty stocks of random tensors, which are the process's."""
    kept = [dict(kind.task_dict) for kind in (module.NpuDropPath, module.NpuCachedDropout)]
    for kind in (module.NpuDropPath, module.NpuCachedDropout):
        kind.task_dict.clear()
    yield
    for kind, tasks in zip((module.NpuDropPath, module.NpuCachedDropout), kept, strict=True):
        kind.task_dict.clear()
        kind.task_dict.update(tasks)


class Layered(nn.Module):
    """Passes its input through a layer, twice."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Any) -> tuple[Any, Any]:
        return self.layer(x), self.layer(x)


@pytest.mark.usefixtures("stocks")
def test_drop_path_drops_whole_samples_from_the_second_step_on():
    model = Layered(module.NpuDropPath(0.25)).to("npu")
    module.NpuDropPath.enable_droppath_ensemble(model)
    x = torch.rand(1000, 3, 2).to("npu") + 1
    assert all(torch.equal(x, result) for result in model(x))
    leaf = x.clone().requires_grad_()
    first, second = model(leaf)
    for result in (first, second):
        kept = result.detach().ne(0).all(dim=(1, 2))
        assert torch.equal(kept, result.detach().ne(0).any(2).any(1))
        torch.testing.assert_close(result[kept], leaf[kept] / 0.75)
        assert 680 < kept.sum().item() < 820
    assert not torch.equal(first.detach(), second.detach())
    (gradient,) = torch.autograd.grad(first.sum(), leaf)
    torch.testing.assert_close(gradient, first.detach().ne(0).float() / 0.75)


@pytest.mark.usefixtures("stocks")
def test_drop_path_of_a_model_that_draws_nothing_drops_nothing():
    layer, x = module.NpuDropPath(0.5).to("npu"), torch.rand(8, 2).to("npu")
    assert all(layer(x) is x for _ in range(3))


@pytest.mark.usefixtures("stocks")
def test_drop_path_does_nothing_in_evaluation_or_with_probability_0():
    x = torch.rand(8, 2).to("npu")
    model = Layered(module.NpuDropPath(0.5)).to("npu").eval()
    module.NpuDropPath.enable_droppath_ensemble(model)
    for _ in range(2):
        assert all(result is x for result in model(x))
    assert module.NpuDropPath(0.0)(x) is x
    assert not module.NpuDropPath.task_dict


def test_drop_path_takes_tensors_and_needs_a_probability():
    with pytest.raises(RuntimeError, match="input type error!"):
        module.NpuDropPath(0.5)([1, 2])
    with pytest.raises(TypeError):
        module.NpuDropPath()


@pytest.mark.usefixtures("stocks")
def test_cached_dropout_drops_from_the_second_step_on():
    model = Layered(module.NpuCachedDropout(0.25)).to("npu")
    module.NpuCachedDropout.enable_dropout_ensemble(model)
    x = torch.rand(64, 128).to("npu") + 1
    assert all(result is x for result in model(x))
    leaf = x.clone().requires_grad_()
    first, second = model(leaf)
    for result in (first, second):
        kept = result.detach().ne(0)
        torch.testing.assert_close(result[kept], leaf[kept] / 0.75)
        assert 0.72 < kept.float().mean().item() < 0.78
    assert not torch.equal(first.detach(), second.detach())
    (gradient,) = torch.autograd.grad(first.sum(), leaf)
    torch.testing.assert_close(gradient, first.detach().ne(0).float() / 0.75)


@pytest.mark.usefixtures("stocks")
def test_cached_dropout_drops_in_evaluation_too_as_on_the_npu():
    model = Layered(module.NpuCachedDropout(0.5)).to("npu")
    module.NpuCachedDropout.enable_dropout_ensemble(model)
    x = torch.ones(64, 64).to("npu")
    model(x)
    model.eval()
    assert not torch.equal(x, model(x)[0])


@pytest.mark.usefixtures("stocks")
def test_cached_dropout_gives_masks_for_a_shape():
    layer = module.NpuCachedDropout(0.5)
    model = Layered(layer).to("npu")
    module.NpuCachedDropout.enable_dropout_ensemble(model)
    wanted = [(16, 128), torch.float32, torch.device("npu:0")]
    assert model(wanted) == (None, None)
    first, second = model(wanted)
    assert (first.dtype, first.device.type) == (torch.uint8, "npu")
    assert not torch.equal(first, second)


@pytest.mark.usefixtures("stocks")
def test_cached_dropout_of_probability_0_does_nothing():
    x = torch.ones(3).to("npu")
    assert module.NpuCachedDropout(0.0)(x) is x
    assert not module.NpuCachedDropout.task_dict
    with pytest.raises(RuntimeError, match="input type error!"):
        module.NpuCachedDropout(0.5)("text")


def test_fairseq_dropout_is_cached_dropout():
    assert module.NpuFairseqDropout is module.NpuCachedDropout
    assert module.NpuFairseqDropout(0.1, "attention").module_name == "attention"


def test_dropout_with_byte_mask_drops_while_training():
    layer = module.DropoutWithByteMask(0.25).to("npu")
    x = (torch.rand(64, 64) + 1).to("npu").requires_grad_()
    result = layer(x)
    kept = result.detach().ne(0)
    torch.testing.assert_close(result[kept], x[kept] / 0.75)
    assert 0.72 < kept.float().mean().item() < 0.78
    (gradient,) = torch.autograd.grad(result.sum(), x)
    torch.testing.assert_close(gradient, kept.float() / 0.75)
    assert torch.equal(layer.eval()(x), x)


def test_dropout_with_byte_mask_refuses_what_it_cannot():
    with pytest.raises(ValueError, match=r"has to be between 0 and 1, but got 1\.5"):
        module.DropoutWithByteMask(1.5)
    with pytest.raises(ValueError, match="has no-inplace computing"):
        module.DropoutWithByteMask(0.5, inplace=True)(torch.ones(2).to("npu"))
