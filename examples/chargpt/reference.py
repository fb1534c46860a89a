#!/usr/bin/env python3
"""Trains the same model on the same windows in PyTorch, as chargpt.yaml says, and prints the validation loss."""
import math
import pathlib
import sys

import json
import numpy as np
import torch
import torch.nn.functional as F

import model

HERE = pathlib.Path(__file__).resolve().parent
BATCH, STEPS, WARMUP, RATE, LEAST = 32, 1000, 100, 2e-3, 2e-4


def windows(tokens):
    count = len(tokens) // (model.CONTEXT + 1)
    return torch.from_numpy(tokens[: count * (model.CONTEXT + 1)].astype(np.int64)).reshape(count, -1)


def main():
    tokens = np.fromfile(HERE / "text.bin", np.uint16)
    cut = int(0.9 * len(tokens))
    train, val = windows(tokens[:cut]), windows(tokens[cut:])
    gpt = model.make(len(json.loads((HERE / "characters.json").read_text()))).train()
    optimizer = torch.optim.AdamW(gpt.parameters(), lr=RATE, betas=(0.9, 0.99), weight_decay=0.01)
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
    order, at = torch.randperm(len(train)), 0
    for step in range(STEPS):
        if at + BATCH > len(train):
            order, at = torch.randperm(len(train)), 0
        rows, at = train[order[at:at + BATCH]], at + BATCH
        rate = RATE * step / WARMUP if step < WARMUP else LEAST + (RATE - LEAST) * 0.5 * (
            1 + math.cos(math.pi * (step - WARMUP) / (STEPS - WARMUP)))
        optimizer.param_groups[0]["lr"] = rate
        optimizer.zero_grad()
        F.cross_entropy(gpt(rows[:, :-1]), rows[:, 1:]).backward()
        torch.nn.utils.clip_grad_norm_(gpt.parameters(), 1.0)
        optimizer.step()
    gpt.eval()
    with torch.no_grad():
        losses = [F.cross_entropy(gpt(w[:, :-1]), w[:, 1:], reduction="sum").item() for w in val.split(64)]
    print(f"validation loss {sum(losses) / (len(val) * model.CONTEXT):.4f}")


if __name__ == "__main__":
    main()
