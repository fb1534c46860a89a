"""A small DLRM: embeddings of the categorical fields and a projection of the dense ones meet in dot
products (Naumov et al., arXiv:1906.00091)."""
import torch
from torch import nn

TABLES = [20000, 5000, 2000, 1000, 500, 100, 24, 7]  # rows of each embedding
DENSE = 13
WIDTH = 16


class Dlrm(nn.Module):
    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(rows, WIDTH) for rows in TABLES)
        for table in self.tables:
            nn.init.uniform_(table.weight, -0.05, 0.05)
        self.bottom = nn.Sequential(nn.Linear(DENSE, 64), nn.ReLU(), nn.Linear(64, WIDTH), nn.ReLU())
        count = len(TABLES) + 1
        self.top = nn.Sequential(nn.Linear(WIDTH + count * count, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, dense, *categories):
        x = self.bottom(dense)
        vectors = torch.stack([x] + [table(c) for table, c in zip(self.tables, categories)], dim=1)
        dots = torch.bmm(vectors, vectors.transpose(1, 2)).flatten(1)
        return self.top(torch.cat([x, dots], dim=1)).squeeze(1)
