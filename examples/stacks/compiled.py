"""torch.compile with the back ends that need no compiler of the device's own."""

import torch
from torch import nn


def main():
    for backend in ("eager", "aot_eager"):
        torch.manual_seed(0)
        torch._dynamo.reset()
        model = nn.Sequential(nn.Linear(12, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 3)).to("cuda")
        step = torch.compile(model, backend=backend)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        x, y = torch.randn(8, 12).to("cuda"), torch.randint(0, 3, (8,)).to("cuda")
        for _ in range(3):
            loss = nn.functional.cross_entropy(step(x), y)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            print(f"loss {loss.item():.6f}")


if __name__ == "__main__":
    main()
