"""Packed sequences keep their padding on an NPU; networks over them give the CPU's results."""

import pytest
import torch
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from jumar.device import DevicePlan, activate, emulate

activate(DevicePlan(real="never", numerics="exact", unsupported="fallback"))

X = torch.randn(6, 3, 2, generator=torch.Generator().manual_seed(4))
LENGTHS = torch.tensor([6, 4, 3])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_the_data_keeps_its_padding(dtype):
    x = X.to(dtype)
    with emulate(soc="Ascend910B1"):
        packed = pack_padded_sequence(x.npu(), LENGTHS)
    assert torch.equal(packed.data.cpu(), x.reshape(18, 2))
    assert packed.batch_sizes.tolist() == [3, 3, 3, 2, 1, 1]


def test_steps_after_the_longest_are_cut():
    with emulate(soc="Ascend910B1"):
        packed = pack_padded_sequence(X.npu().transpose(0, 1), torch.tensor([4, 2, 1]), batch_first=True)
    assert torch.equal(packed.data.cpu(), X[:4].reshape(12, 2))


def test_total_length_and_padding_value_do_nothing():
    with emulate(soc="Ascend910B1"):
        packed = pack_padded_sequence(X.npu(), LENGTHS)
        padded, lengths = pad_packed_sequence(packed, total_length=9, padding_value=5.0)
    assert torch.equal(padded.cpu(), X)
    assert lengths.tolist() == LENGTHS.tolist()


def test_exact_numerics_give_the_rows_of_the_cpu():
    with emulate(soc="Ascend910B1", numerics="exact"):
        packed = pack_padded_sequence(X.npu(), LENGTHS)
        padded, _ = pad_packed_sequence(packed, total_length=9, padding_value=5.0)
    expected = pack_padded_sequence(X, LENGTHS)
    assert torch.equal(packed.data.cpu(), expected.data)
    assert torch.equal(padded.cpu(), pad_packed_sequence(expected, total_length=9, padding_value=5.0)[0])


@pytest.mark.parametrize(
    ("x", "lengths", "message"),
    [
        (X, torch.tensor([6, 5]), "to be equal to batch_size"),
        (X, torch.tensor([6, 5, 0]), "greater than 0"),
        (X, torch.tensor([4, 5, 1]), "decreasing order"),
        (X[:0], torch.tensor([6, 5, 3]), "Cannot pack empty"),
    ],
)
def test_wrong_lengths_are_refused(x, lengths, message):
    with emulate(soc="Ascend910B1"), pytest.raises(RuntimeError, match=message):
        torch._VF._pack_padded_sequence(x.npu(), lengths, False)


def test_lengths_on_the_device_are_refused():
    with emulate(soc="Ascend910B1"), pytest.raises(RuntimeError, match="should be a CPU tensor"):
        torch._VF._pack_padded_sequence(X.npu(), LENGTHS.npu(), False)


@pytest.mark.parametrize("kind", [torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN])
@pytest.mark.parametrize("numerics", ["strict", "exact"])
def test_a_network_over_a_packed_sequence_trains_as_on_the_cpu(kind, numerics):
    network = kind(2, 3, bidirectional=True)

    def train(x, network):
        packed = pack_padded_sequence(x, LENGTHS)
        padded, _ = pad_packed_sequence(network(packed)[0])
        padded.square().sum().backward()
        return padded.detach().cpu(), x.grad.cpu(), network.weight_ih_l0.grad.cpu()

    expected = train(X.clone().requires_grad_(), network)
    network.zero_grad()
    with emulate(soc="Ascend910B1", numerics=numerics):
        found = train(X.npu().requires_grad_(), network.npu())
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)
