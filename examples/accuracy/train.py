"""A small language model with a fault on demand: what `jumar compare` is tried on in docs/guide-compare.md.

python train.py                 trains six steps
python train.py --fast-gelu     one of its activations is another formula
"""

import math
import sys

import torch
from torch import nn
from torch.nn import functional


class FastGelu(nn.Module):
    """An approximation that some kernels use for GELU."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.sigmoid(1.702 * x)


class Block(nn.Module):
    """Attention with one head, then two layers with an activation between them."""

    def __init__(self, width: int, activation: nn.Module) -> None:
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.fc1, self.act, self.fc2 = nn.Linear(width, 4 * width), activation, nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        length, width = x.shape[1:]
        q, k, v = self.qkv(self.ln1(x)).split(width, 2)
        mask = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
        scores = (q @ k.transpose(-2, -1) / math.sqrt(width)).masked_fill(mask, float("-inf"))
        x = x + self.proj(scores.softmax(-1) @ v)
        return x + self.fc2(self.act(self.fc1(self.ln2(x))))


class Gpt(nn.Module):
    """A block for each activation."""

    def __init__(self, activations: list[nn.Module], width: int = 64, words: int = 128) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(words, width), nn.Embedding(32, width)
        self.blocks = nn.ModuleList(Block(width, activation) for activation in activations)
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def main() -> None:
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    activation = FastGelu() if "--fast-gelu" in sys.argv else nn.GELU()
    model = Gpt([nn.GELU(), activation, nn.GELU()]).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    draw = torch.Generator().manual_seed(1)
    for _ in range(6):
        tokens = torch.randint(0, 128, (4, 33), generator=draw).to(device)
        logits = model(tokens[:, :-1])
        loss = functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
