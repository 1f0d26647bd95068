"""Lightning Fabric: a loop of one's own in mixed bfloat16 on one accelerator."""

import torch
from lightning.fabric import Fabric
from torch import nn


def main():
    fabric = Fabric(accelerator="cuda", devices=1, precision="bf16-mixed")
    fabric.launch()
    fabric.seed_everything(0)
    model = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 3))
    model, optimizer = fabric.setup(model, torch.optim.SGD(model.parameters(), lr=0.1))
    data = torch.utils.data.TensorDataset(torch.randn(24, 12), torch.randint(0, 3, (24,)))
    for x, y in fabric.setup_dataloaders(torch.utils.data.DataLoader(data, batch_size=8)):
        loss = nn.functional.cross_entropy(model(x).float(), y)
        optimizer.zero_grad()
        fabric.backward(loss)
        fabric.clip_gradients(model, optimizer, max_norm=1.0)
        optimizer.step()
        print(f"loss {loss.item():.6f}")


if __name__ == "__main__":
    main()
