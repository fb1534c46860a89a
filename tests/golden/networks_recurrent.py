"""Networks of words and clicks: an LSTM language model, a GRU classifier of both directions, and DLRM with four tables."""
import torch
from torch import nn

from cases import Case

TOKENS = 12
VOCABULARY = 50


class LstmLanguageModel(nn.Module):
    """Two layers with dropout between them, which PyTorch exports as layers of their own only."""

    def __init__(self, width=24):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, width)
        self.lstm1 = nn.LSTM(width, width, batch_first=True)
        self.dropout = nn.Dropout(0.0)
        self.lstm2 = nn.LSTM(width, width, batch_first=True)
        self.head = nn.Linear(width, VOCABULARY)

    def forward(self, tokens):
        x, _ = self.lstm1(self.embedding(tokens))
        x, _ = self.lstm2(self.dropout(x))
        return self.head(x).transpose(1, 2)


class GruClassifier(nn.Module):
    """Two layers of both directions; the classes come from the last states."""

    def __init__(self, width=12):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, width)
        self.gru = nn.GRU(width, width, num_layers=2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * width, 10)

    def forward(self, tokens):
        _, state = self.gru(self.embedding(tokens))
        return self.head(torch.cat([state[2], state[3]], 1))


class Dlrm(nn.Module):
    """Dense features through an MLP, a row of each table, the products of all pairs, and an MLP on top."""

    TABLES = (10, 100, 30, 7)

    def __init__(self, width=8):
        super().__init__()
        self.bottom = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, width), nn.ReLU())
        self.tables = nn.ModuleList(self.table(rows, width) for rows in self.TABLES)
        pairs = torch.tril_indices(5, 5, offset=-1)
        self.register_buffer("rows", pairs[0], persistent=False)
        self.register_buffer("columns", pairs[1], persistent=False)
        self.top = nn.Sequential(nn.Linear(width + 10, 16), nn.ReLU(), nn.Linear(16, 1))

    def table(self, rows, width):
        return nn.Embedding(rows, width)

    def forward(self, dense, sparse):
        x = self.bottom(dense)
        features = torch.stack([x] + [table(sparse[:, i]) for i, table in enumerate(self.tables)], 1)
        products = torch.bmm(features, features.transpose(1, 2))
        return self.top(torch.cat([x, products[:, self.rows, self.columns]], 1))[:, 0]


class DlrmBags(Dlrm):
    """Three rows of each table, added or averaged by nn.EmbeddingBag."""

    def table(self, rows, width):
        return nn.EmbeddingBag(rows, width, mode="mean" if rows > 20 else "sum")


TEXT = {"tokens": ("int", (TOKENS,), 0, VOCABULARY)}
CLICKS = {"dense": ("float", (5,)), "sparse": ("int", (4,), 0, min(Dlrm.TABLES))}
CASES = {
    "lstm_lm": Case(LstmLanguageModel, TEXT, label=("class", (TOKENS,), VOCABULARY), sgd=dict(lr=0.5, momentum=0.9),
                    adamw=dict(lr=1e-2, weight_decay=0.01)),
    "gru": Case(GruClassifier, TEXT, sgd=dict(lr=0.1, momentum=0.9), adamw=dict(lr=1e-2, weight_decay=0.01)),
    "dlrm": Case(Dlrm, CLICKS, label=("binary", ()), sgd=dict(lr=0.05, momentum=0.9),
                 adamw=dict(lr=1e-2, weight_decay=0.01)),
    "dlrm_bags": Case(DlrmBags, {**CLICKS, "sparse": ("int", (4, 3), 0, min(Dlrm.TABLES))}, label=("binary", ()),
                      exporters=("torchscript",), sgd=dict(lr=0.05, momentum=0.9),
                      adamw=dict(lr=1e-2, weight_decay=0.01)),
}
