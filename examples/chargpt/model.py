"""A character-level GPT: learned positions, pre-norm blocks, weights of the head tied to the embedding."""
import torch
import torch.nn.functional as F
from torch import nn

CONTEXT = 64
WIDTH = 96
HEADS = 4
LAYERS = 3


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1 = nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.proj = nn.Linear(WIDTH, WIDTH)
        self.ln_2 = nn.LayerNorm(WIDTH)
        self.fc = nn.Linear(WIDTH, 4 * WIDTH)
        self.out = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        n = x.shape[0]
        q, k, v = self.qkv(self.ln_1(x)).reshape(n, CONTEXT, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(n, CONTEXT, WIDTH))
        return x + self.out(F.gelu(self.fc(self.ln_2(x))))


class Gpt(nn.Module):
    """idx i64 [N, CONTEXT] -> logits [N, vocabulary, CONTEXT], as cross_entropy wants them."""

    def __init__(self, vocabulary):
        super().__init__()
        self.wte = nn.Embedding(vocabulary, WIDTH)
        self.wpe = nn.Parameter(torch.zeros(CONTEXT, WIDTH))
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.ln = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, vocabulary, bias=False)
        self.head.weight = self.wte.weight
        nn.init.normal_(self.wte.weight, std=0.02)
        nn.init.normal_(self.wpe, std=0.02)

    def forward(self, idx):
        x = self.wte(idx) + self.wpe
        for block in self.blocks:
            x = block(x)
        return self.head(self.ln(x)).transpose(1, 2)


def make(vocabulary):
    torch.manual_seed(0)
    return Gpt(vocabulary)
