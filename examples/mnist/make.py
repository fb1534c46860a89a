#!/usr/bin/env python3
"""Writes what mnist.yaml reads: mnist.npz, train.npy and val.npy (a fixed split) and cnn.onnx.

MNIST itself is not here: give the IDX files, packed or not. Of the 10,000 images of the test set,
every tenth is held out: 9,000 to train on, 1,000 to judge by. Needs PyTorch, onnx and NumPy."""
import argparse
import gzip
import pathlib

import numpy as np
import torch
from torch import nn

HERE = pathlib.Path(__file__).resolve().parent


def read_idx(path):
    data = pathlib.Path(path).read_bytes()
    data = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    rank = data[3]
    shape = np.frombuffer(data, ">i4", rank, 4)
    return np.frombuffer(data, np.uint8, offset=4 + 4 * rank).reshape(shape)


class Cnn(nn.Module):
    """Two convolutions with batch norm and a hidden layer; reads raw pixels."""

    def __init__(self, width=16):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(width, 2 * width, 3, padding=1, bias=False), nn.BatchNorm2d(2 * width), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(2 * width * 49, 64), nn.ReLU(), nn.Dropout(0.3), nn.Linear(64, 10))

    def forward(self, x):
        return self.body(x / 255)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", required=True, help="t10k-images-idx3-ubyte, .gz or not")
    parser.add_argument("--labels", required=True, help="t10k-labels-idx1-ubyte, .gz or not")
    args = parser.parse_args()
    images, labels = read_idx(args.images), read_idx(args.labels)
    np.savez_compressed(HERE / "mnist.npz", x=images[:, None], label=labels.astype(np.int64))
    rows = np.arange(len(images))
    np.save(HERE / "val.npy", rows[9::10])
    np.save(HERE / "train.npy", rows[rows % 10 != 9])
    torch.manual_seed(0)
    torch.onnx.export(Cnn().train(), (torch.zeros(2, 1, 28, 28),), str(HERE / "cnn.onnx"), dynamo=False,
                      training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False, opset_version=17,
                      input_names=["x"], output_names=["logits"], dynamic_axes={"x": {0: "N"}, "logits": {0: "N"}})
    print(f"{len(rows) - len(rows[9::10])} rows to train on, {len(rows[9::10])} held out")


if __name__ == "__main__":
    main()
