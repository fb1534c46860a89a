#!/usr/bin/env python3
"""Writes what chargpt.yaml reads: text.bin (u16 tokens, a token a character) and gpt.onnx.

Give any text; tiny Shakespeare is the usual one. Needs PyTorch, onnx and NumPy."""
import argparse
import gzip
import json
import pathlib

import numpy as np
import torch

import model

HERE = pathlib.Path(__file__).resolve().parent


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--text", required=True, help="a text file, gzipped or not")
    args = parser.parse_args()
    data = pathlib.Path(args.text).read_bytes()
    text = (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode()
    characters = sorted(set(text))
    number = {c: i for i, c in enumerate(characters)}
    np.array([number[c] for c in text], np.uint16).tofile(HERE / "text.bin")
    (HERE / "characters.json").write_text(json.dumps(characters))
    gpt = model.make(len(characters))
    torch.onnx.export(gpt.train(), (torch.zeros(2, model.CONTEXT, dtype=torch.int64),), str(HERE / "gpt.onnx"),
                      dynamo=False, training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False,
                      opset_version=17, input_names=["idx"], output_names=["logits"],
                      dynamic_axes={"idx": {0: "N"}, "logits": {0: "N"}})
    print(f"{len(text)} characters, {len(characters)} different; "
          f"{sum(p.numel() for p in gpt.parameters())} parameters")


if __name__ == "__main__":
    main()
