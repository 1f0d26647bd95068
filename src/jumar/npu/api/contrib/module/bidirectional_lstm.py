"""A bidirectional LSTM made of two LSTMs."""

from __future__ import annotations

import torch
from torch import nn

from jumar.npu.api.contrib.deprecated import warn_deprecated

Tensor = torch.Tensor

__all__ = ["BiLSTM"]


class BiLSTM(nn.Module):
    """One layer in both directions; deprecated.

    The input is (length, batch, input_size), the output (length, batch, 2 * hidden_size), forward half first.
    """

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__()
        warn_deprecated("BiLSTM", "torch.nn.LSTM(bidirectional=True)")
        self.fw_rnn = nn.LSTM(input_size, hidden_size, bidirectional=False)
        self.bw_rnn = nn.LSTM(input_size, hidden_size, bidirectional=False)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the hidden states of both directions, side by side."""
        forward, _ = self.fw_rnn(inputs)
        backward, _ = self.bw_rnn(torch.flip(inputs, [0]))
        return torch.cat((forward, torch.flip(backward, [0])), 2)
