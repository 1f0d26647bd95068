"""DataParallel on all GPUs, a checkpoint with the keys it gives."""
import torch
import torch.nn as nn
from torch.utils.data import DataLoader

from figures import Figures


def main():
    torch.manual_seed(9)
    model = nn.Sequential(nn.Flatten(), nn.Linear(16, 3))
    if torch.cuda.device_count() > 1:
        model = nn.DataParallel(model)
    model.cuda()
    loader = DataLoader(Figures(16, 1, 'data', download=True), batch_size=4, shuffle=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x.cuda()), y.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    torch.save(model.state_dict(), 'model.pt')
    torch.save(model.module.state_dict(), 'plain.pt')


if __name__ == '__main__': main()
