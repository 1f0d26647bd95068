"""Lightning: a module under the Trainer on one accelerator."""

import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Classifier(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.network = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 3))

    def training_step(self, batch, _index):
        x, y = batch
        loss = nn.functional.cross_entropy(self.network(x), y)
        print(f"loss {loss.item():.6f}")
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)


def main():
    lightning.seed_everything(0)
    data = TensorDataset(torch.randn(24, 12), torch.randint(0, 3, (24,)))
    trainer = lightning.Trainer(
        max_epochs=1,
        accelerator="cuda",
        devices=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Classifier(), DataLoader(data, batch_size=8))


if __name__ == "__main__":
    main()
