"""A class that keeps model, optimizer and loaders, and trains; early stopping, a plateau scheduler, a best model."""
import math
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader

from figures import Figures


class Trainer:
    def __init__(self, model, train_loader, val_loader, lr, device):
        self.device = device
        self.model = model.to(device)
        self.train_loader = train_loader
        self.val_loader = val_loader
        self.criterion = nn.CrossEntropyLoss()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=lr)
        self.scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(self.optimizer, patience=0)

    def step(self, batch):
        x, y = (item.to(self.device) for item in batch)
        loss = self.criterion(self.model(x), y)
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return loss.item()

    def train_epoch(self):
        self.model.train()
        total = 0.0
        for batch in self.train_loader:
            loss = self.step(batch)
            if math.isnan(loss):
                break
            total += loss
        return total / len(self.train_loader)

    @torch.no_grad()
    def evaluate(self):
        self.model.eval()
        total, count = 0.0, 0
        for x, y in self.val_loader:
            total += self.criterion(self.model(x.to(self.device)), y.to(self.device)).item() * len(x)
            count += len(x)
        print(f'evaluated {count}')
        return total / count

    def fit(self, epochs):
        best = math.inf
        for epoch in range(epochs):
            train_loss = self.train_epoch()
            val_loss = self.evaluate()
            self.scheduler.step(train_loss)
            print(f'epoch {epoch} train {train_loss:.6f} val {val_loss:.6f}')
            if val_loss < best:
                best = val_loss
                torch.save({'model': self.model.state_dict(), 'last': self.model[-1].weight}, 'best.pt')
            if train_loss > 10 * best:
                print('stopping early')
                break
        self.model.load_state_dict(torch.load('best.pt')['model'])
        return best


def main():
    torch.manual_seed(3)
    batch_size = int(sys.argv[1]) if len(sys.argv) > 1 else 8
    train_set = Figures(32, 1, 'data', download=True)
    val_set = Figures(11, 2, 'data', download=True)
    train_loader = DataLoader(train_set, batch_size, shuffle=False)
    val_loader = DataLoader(val_set, batch_size=4)
    model = nn.Sequential(nn.Flatten(), nn.Linear(16, 3))
    trainer = Trainer(model, train_loader, val_loader, lr=0.05, device=torch.device('cuda', 0))
    trainer.fit(2)
    return 0


if __name__ == '__main__':
    sys.exit(main())
