"""Recurrent layers against PyTorch's."""

from __future__ import annotations

import pytest
import torch
from custom_reference import leaf, on_npu, same

from jumar.device import DevicePlan, activate

activate(DevicePlan(real="never", numerics="exact", unsupported="fallback"))
npu = torch.ops.npu
CLOSE = {"rtol": 1e-4, "atol": 1e-5}


def lstm_inputs(time=5, batch=3, inputs=4, hidden=2):
    return leaf(time, batch, inputs), leaf(inputs + hidden, 4 * hidden), leaf(4 * hidden), leaf(1, batch, hidden), leaf(
        1, batch, hidden
    )  # fmt: skip


def lstm_on_npu(x, weight, bias, h, c, mask=None):
    given = torch.zeros(1, device="npu") if mask is None else mask.npu()
    return npu.npu_lstm(x, weight, bias, given, h, c, True, 1, 0.0, True, False, False, mask is not None, False)


def plain_lstm(x, weight, bias, h, c):
    inputs = x.shape[-1]
    params = (weight[:inputs].t(), weight[inputs:].t(), bias, torch.zeros_like(bias))
    y, last_h, last_c = torch._VF.lstm(x, (h, c), params, True, 1, 0.0, True, False, False)
    return y, last_h, last_c


@pytest.mark.parametrize("time", [1, 5])
def test_an_lstm_and_its_gradients(time):
    def last(*inputs):
        y, h, c, *_ = lstm_on_npu(*inputs)
        return y, h[-1:], c[-1:]

    same(last, plain_lstm, *lstm_inputs(time), **CLOSE)


def test_the_states_and_gates_of_an_lstm_belong_together():
    y, h, c, i, j, f, o, tanh = (item.cpu() for item in lstm_on_npu(*map(on_npu, lstm_inputs())))
    assert torch.equal(y, h)
    torch.testing.assert_close(o * tanh, y)
    torch.testing.assert_close(c.tanh(), tanh)
    torch.testing.assert_close(c[1:], f[1:] * c[:-1] + i[1:] * j[1:])


def test_gradients_reach_the_states_by_their_last_step_alone():
    inputs = [on_npu(item) for item in lstm_inputs()]
    states = lstm_on_npu(*inputs)[1]
    states[:-1].sum().backward()
    assert inputs[0].grad.cpu().eq(0).all()


def test_padded_sequences_keep_their_state_and_give_zeros():
    x, weight, bias, h, c = lstm_inputs(4, 3)
    lengths = [4, 2, 1]
    mask = (torch.arange(4).view(4, 1, 1) < torch.tensor(lengths).view(1, 3, 1)).float().expand(4, 3, 2)
    batch_sizes = torch.tensor([3, 2, 1, 1])

    def padded(*inputs):
        given = (inputs[0], batch_sizes.npu(), *inputs[1:3], mask.npu(), *inputs[3:])
        y, hs, cs, *_ = npu.npu_lstm_data(*given, True, 1, 0.0, True, False, False, True, False)
        return y, hs[-1:], cs[-1:]

    def packed(*inputs):
        values, w, b, first_h, first_c = inputs
        ys, hs, cs = [], [], []
        for n, length in enumerate(lengths):
            one = plain_lstm(values[:length, n : n + 1], w, b, first_h[:, n : n + 1], first_c[:, n : n + 1])
            ys.append(torch.cat([one[0], torch.zeros(4 - length, 1, 2)]))
            hs.append(one[1])
            cs.append(one[2])
        return torch.cat(ys, 1), torch.cat(hs, 1), torch.cat(cs, 1)

    same(padded, packed, x, weight, bias, h, c, **CLOSE)


def test_what_the_device_has_no_lstm_for_is_refused():
    inputs = [on_npu(item) for item in lstm_inputs()]
    with pytest.raises(NotImplementedError, match="one layer, one direction"):
        npu.npu_lstm(*inputs[:3], inputs[0], *inputs[3:], True, 2, 0.0, True, False, False, False, False)


def test_the_backward_of_an_lstm_by_name():
    inputs = lstm_inputs()
    expected_outputs = plain_lstm(*inputs)
    seeds = [torch.randn_like(item) for item in expected_outputs]
    expected = torch.autograd.grad(expected_outputs, inputs, seeds)
    there = [on_npu(item.detach()) for item in inputs]
    saved = lstm_on_npu(*there)
    by_h, by_c = (torch.cat([torch.zeros(4, *seed.shape[1:]), seed]) for seed in seeds[1:])
    found = npu.npu_lstm_backward(seeds[0].npu(), by_h.npu(), by_c.npu(), *there, *saved)
    for mine, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(mine.cpu(), theirs, **CLOSE)
    sizes = torch.tensor([3] * 5).npu()
    again = npu.npu_lstm_data_backward(
        seeds[0].npu(), by_h.npu(), by_c.npu(), there[0], sizes, *there[1:], *saved, False
    )
    for mine, theirs in zip(again, expected, strict=True):
        torch.testing.assert_close(mine.cpu(), theirs, **CLOSE)


@pytest.mark.parametrize("bias", [True, False])
def test_an_lstm_cell_and_its_gradients(bias):
    x, w_ih, w_hh, h, c = leaf(3, 4), leaf(4, 8), leaf(2, 8), leaf(3, 2), leaf(3, 2)
    more = (leaf(8), leaf(8)) if bias else (None, None)

    def plain(x, w_ih, w_hh, h, c, b_ih, b_hh):
        return torch._VF.lstm_cell(x, (h, c), w_ih.t(), w_hh.t(), b_ih, b_hh)

    same(npu.npu_lstm_cell, plain, x, w_ih, w_hh, h, c, *more, kept=(1, 2), **CLOSE)
    there = [on_npu(item.detach()) for item in (x, w_ih, w_hh, h, c)]
    saved = npu.npu_lstm_cell(*there)
    new_h, new_c = plain(x, w_ih, w_hh, h, c, None, None)
    seeds = [torch.randn(3, 2) for _ in range(3)]
    expected = torch.autograd.grad((new_h, new_h, new_c), (x, w_ih, w_hh, h, c), seeds)
    found = npu.npu_lstm_cell_backward(seeds[0].view(1, 3, 2).npu(), *(s.npu() for s in seeds[1:]), *there, *saved)
    kept = [*found[:3], *found[5:]]
    for mine, theirs in zip(kept, expected, strict=True):
        torch.testing.assert_close(mine.cpu(), theirs, **CLOSE)
    assert found[3].shape == found[4].shape == (8,)
    assert npu.npu_lstm_cell_backward(None, None, seeds[2].npu(), *there, *saved)[0].shape == (3, 4)


def gru_on_npu(x, h, w_in, w_hidden, b_in, b_hidden):
    length = torch.tensor([x.shape[0]], dtype=torch.int32).npu()
    return npu.npu_gru(x, h, w_in, w_hidden, b_in, b_hidden, length, True, 1, 0.0, True, False, False)


def plain_gru(x, h, w_in, w_hidden, b_in, b_hidden):
    return torch._VF.gru(x, h, (w_in.t(), w_hidden.t(), b_in, b_hidden), True, 1, 0.0, True, False, False)


def test_a_gru_and_its_gradients():
    inputs = (leaf(5, 3, 4), leaf(1, 3, 2), leaf(4, 6), leaf(2, 6), leaf(6), leaf(6))

    def last(*given):
        y, h, *_ = gru_on_npu(*given)
        return y, h[-1:]

    same(last, plain_gru, *inputs, **CLOSE)
    there = [on_npu(item.detach()) for item in inputs]
    saved = gru_on_npu(*there)
    y, last_h = plain_gru(*inputs)
    seeds = [torch.randn_like(y), torch.randn_like(last_h)]
    x, h, w_in, w_hidden, b_in, b_hidden = inputs
    expected = torch.autograd.grad((y, last_h), (w_in, w_hidden, x, b_in, b_hidden, h), seeds)
    by_h = torch.cat([torch.zeros(4, 3, 2), seeds[1]]).npu()
    found = npu.npu_gru_backward(seeds[0].npu(), by_h, there[0], *there[2:], torch.ones(1).npu(), there[1], *saved)
    for mine, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(mine.cpu(), theirs, **CLOSE)


def test_the_gates_of_a_gru_make_its_states():
    inputs = (leaf(5, 3, 4), leaf(1, 3, 2), leaf(4, 6), leaf(2, 6), leaf(6), leaf(6))
    y, h, update, reset, new, hidden_new = (item.cpu() for item in gru_on_npu(*map(on_npu, inputs)))
    assert torch.equal(y, h)
    torch.testing.assert_close(h[1:], (1 - update[1:]) * new[1:] + update[1:] * h[:-1])
    x, _, w_in, _, b_in, _ = inputs
    torch.testing.assert_close(new, (x @ w_in[:, 4:] + b_in[4:] + reset * hidden_new).tanh().detach())
