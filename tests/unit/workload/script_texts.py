"""Training scripts as people write them, for the tests that capture whole scripts."""

from __future__ import annotations

PLAIN = """
import torch
from torch import nn

def build():
    return Net(), (torch.randn(16, 3, 32, 32), torch.randint(0, 10, (16,))), nn.CrossEntropyLoss()

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.scores = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Linear(8, 10)

    def forward(self, x):
        return self.scores(self.norm(self.conv(x)).relu().mean((2, 3)))

if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    data = torch.utils.data.TensorDataset(torch.randn(64, 3, 32, 32), torch.randint(0, 10, (64,)))
    loader = torch.utils.data.DataLoader(data, 16, shuffle=True, num_workers=2, pin_memory=True)
    net, criterion = Net().to(device), nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    for x, y in loader:
        x, y = x.to(device, non_blocking=True), y.to(device)
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()
"""

MIXED = """
import argparse, copy, math, os
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=8)
options = parser.parse_args()
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
torch.manual_seed(0)

class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.attention = nn.MultiheadAttention(width, 4, batch_first=True)
        self.norm, self.scale = nn.LayerNorm(width), nn.Parameter(torch.ones(()))
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Dropout(0.1), nn.Linear(4 * width, width))

    def forward(self, x):
        places = torch.arange(x.shape[1], device="cuda")
        mask = torch.zeros(x.shape[1], x.shape[1], device=x.device)
        x = x + self.attention(x, x, x, need_weights=False, attn_mask=mask)[0] + places[None, :, None] * 0
        return self.norm(x + self.mlp(x) * self.scale)

class Net(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.table, self.scores = nn.Embedding(100, width), nn.Linear(width, 100)
        self.blocks = nn.ModuleList(Block(width) for _ in range(2))

    def forward(self, tokens):
        x = self.table(tokens)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False)
        return self.scores(x)

net = torch.compile(Net().cuda())
average = copy.deepcopy(net)
net = DistributedDataParallel(net, device_ids=[0])
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
scaler = torch.cuda.amp.GradScaler()
for step in range(10):
    x = torch.randint(0, 100, (options.batch_size, 32)).cuda()
    y = torch.randint(0, 100, (options.batch_size, 32), device="cuda")
    with torch.cuda.amp.autocast():
        logits = net(x)
        loss = F.cross_entropy(logits.view(-1, 100), y.view(-1))
    if not math.isfinite(loss.item()) or not torch.isfinite(loss) or torch.isnan(logits).any():
        raise SystemExit(1)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad(set_to_none=True)
    schedule.step()
    torch.cuda.synchronize()
    correct = (logits.argmax(-1) == y).sum().item()
    print(f"{loss:.3f} {float(loss)} {correct / y.numel()}", loss, logits[0, 0, :2].tolist(), logits.cpu().detach().numpy())
    if loss < 0.1:
        break
    torch.save(net.state_dict(), "/nonexistent/checkpoint.pt")
"""

TWO_OPTIMIZERS = """
import torch
from torch import nn
G, D = nn.Linear(4, 8).cuda(), nn.Linear(8, 1).cuda()
g, d = torch.optim.Adam(G.parameters()), torch.optim.Adam(D.parameters())
for step in range(9):
    fake = G(torch.randn(16, 4, device="cuda"))
    d.zero_grad(); D(fake.detach()).mean().backward(); d.step()
    g.zero_grad(); D(fake).mean().neg().backward(); g.step()
"""

ACCUMULATES = """
import torch
net = torch.nn.Linear(4, 2)
optimizer = torch.optim.Adam(net.parameters())
for step in range(12):
    net.train()
    for part in range(3):
        net(torch.randn(5, 4)).pow(2).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    net.eval()
    with torch.no_grad():
        print(net(torch.randn(50, 4)).mean().item())
"""

REAL_DATA = """
import pathlib, sys
import numpy as np
import torch
values = np.loadtxt(sys.argv[1], delimiter=",")
assert values.sum() == 120.0
class Rows(torch.utils.data.Dataset):
    def __len__(self): return len(values)
    def __getitem__(self, row):
        x = torch.from_numpy(values[row]).float()
        assert float(x.sum()) == values[row].sum() and x.numpy().shape == (4,)
        return (x - x.mean()) * (1 if torch.rand(1).item() <= 1 else 0), int(values[row][0]) % 2
train, rest = torch.utils.data.random_split(Rows(), [24, 6])
net = torch.nn.Linear(4, 2)
optimizer = torch.optim.RMSprop(net.parameters())
for x, y in torch.utils.data.DataLoader(train, batch_size=8, shuffle=True, num_workers=8):
    optimizer.zero_grad()
    chosen = y > 0
    out = net(x)
    (torch.nn.functional.cross_entropy(out, y) + out[chosen].mean()).backward()
    optimizer.step()
"""
