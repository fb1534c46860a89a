#!/usr/bin/env python3
"""Writes models/*.onnx and the fixed split of the digits, data/digits_{train,test}.npy.

Needs PyTorch 1.13 or later and onnx (Debian: python3-torch python3-onnx); 1.13.1 and 2.15.0 write the
same graphs and weights."""
import gzip
import pathlib

import numpy as np
import torch

import models

HERE = pathlib.Path(__file__).resolve().parent


def load_digits():
    with gzip.open(HERE / "data/digits.csv.gz", "rt") as file:
        table = np.loadtxt(file, delimiter=",")
    return table[:, :-1].astype(np.float32), table[:, -1].astype(np.int64)


def split(labels, test_fraction=0.2, seed=0):
    """The same share of every class, in file order."""
    random = np.random.RandomState(seed)
    test = []
    for label in np.unique(labels):
        rows = random.permutation(np.flatnonzero(labels == label))
        test.extend(rows[: round(test_fraction * len(rows))])
    test = np.sort(np.array(test, np.int64))
    return np.setdiff1d(np.arange(len(labels), dtype=np.int64), test), test


def main():
    _, labels = load_digits()
    train, test = split(labels)
    np.save(HERE / "data/digits_train.npy", train)
    np.save(HERE / "data/digits_test.npy", test)
    (HERE / "models").mkdir(exist_ok=True)
    for name, (make, row_shape) in models.MODELS.items():
        torch.manual_seed(0)
        path = HERE / "models" / f"{name}.onnx"
        models.export(make(), row_shape, str(path))
        print(f"{path.relative_to(HERE)}: {path.stat().st_size:,} bytes")
    print(f"{len(train)} rows to train on, {len(test)} to test on")


if __name__ == "__main__":
    main()
