#!/usr/bin/env python3
"""Writes dlrm.onnx and a synthetic click log: day1.npz, day2.npz, ... to push and held_out.npz to judge by.

The log is drawn by a fixed model: whether a row is clicked depends on its dense fields, on every category by
itself and on pairs of them. Needs PyTorch, onnx and NumPy."""
import argparse
import pathlib

import numpy as np
import torch

from model import DENSE, TABLES, Dlrm

HERE = pathlib.Path(__file__).resolve().parent
PAIRS = [(0, 1), (0, 3), (2, 4), (3, 5), (1, 6)]


class Clicks:
    def __init__(self, seed=0):
        random = np.random.default_rng(seed)
        self.dense = random.normal(0, 0.25, DENSE)
        self.bias = [random.normal(0, 0.3, rows) for rows in TABLES]
        self.taste = [random.normal(0, 1, (rows, 4)) for rows in TABLES]

    def rows(self, count, seed):
        """The log's part with that seed; popular categories have low numbers."""
        random = np.random.default_rng([1, seed])
        dense = random.normal(0, 1, (count, DENSE)).astype(np.float32)
        cat = np.stack([np.minimum(random.exponential(n / 6, count).astype(np.int64), n - 1)
                        for n in TABLES], axis=1)
        logit = dense @ self.dense - 0.8
        for i, bias in enumerate(self.bias):
            logit += bias[cat[:, i]]
        for i, j in PAIRS:
            logit += 0.35 * np.sum(self.taste[i][cat[:, i]] * self.taste[j][cat[:, j]], axis=1)
        label = (random.random(count) < 1 / (1 + np.exp(-logit))).astype(np.float32)
        return {"dense": dense, "cat": cat, "label": label}, logit


def export(path):
    torch.manual_seed(0)
    dlrm = Dlrm().train()
    example = (torch.zeros(2, DENSE), *[torch.zeros(2, dtype=torch.int64)] * len(TABLES))
    names = ["dense"] + [f"c{i}" for i in range(len(TABLES))]
    torch.onnx.export(dlrm, example, str(path), input_names=names, output_names=["logit"],
                      dynamic_axes={name: {0: "N"} for name in names + ["logit"]}, opset_version=17,
                      training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False, dynamo=False)
    print(f"{path.name}: {sum(p.numel() for p in dlrm.parameters()):,} parameters")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--days", type=int, default=4)
    parser.add_argument("--rows", type=int, default=500_000, help="of a day")
    args = parser.parse_args()
    export(HERE / "dlrm.onnx")
    log = Clicks()
    parts = [(f"day{day}.npz", args.rows, day) for day in range(1, args.days + 1)]
    for name, rows, seed in parts + [("held_out.npz", 50_000, 1000)]:
        fields, logit = log.rows(rows, seed)
        np.savez(HERE / name, **fields, true_logit=logit.astype(np.float32))
        print(f"{name}: {rows:,} rows, {fields['label'].mean():.1%} clicked")


if __name__ == "__main__":
    main()
