#!/usr/bin/env python3
"""Loss and AUC of trained weights on the held-out part of the click log, in PyTorch, beside those of the model
that drew it, which nothing can beat. Needs PyTorch, NumPy and safetensors."""
import argparse
import pathlib

import numpy as np
import torch
from safetensors.torch import load_file

import model

HERE = pathlib.Path(__file__).resolve().parent


def auc(score, label):
    _, ranks, counts = np.unique(score, return_inverse=True, return_counts=True)
    mean_rank = np.cumsum(counts) - (counts - 1) / 2
    clicked = label > 0.5
    positives, negatives = clicked.sum(), (~clicked).sum()
    return (mean_rank[ranks][clicked].sum() - positives * (positives + 1) / 2) / (positives * negatives)


def loss(logit, label):
    return float(np.mean(np.logaddexp(0, logit) - label * logit))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("weights")
    parser.add_argument("--log", default=HERE / "held_out.npz")
    args = parser.parse_args()
    dlrm = model.Dlrm().eval()
    dlrm.load_state_dict(load_file(args.weights))
    log = np.load(args.log)
    cat = torch.from_numpy(log["cat"])
    with torch.no_grad():
        logit = dlrm(torch.from_numpy(log["dense"]), *cat.unbind(1)).numpy().astype(np.float64)
    for name, values in (("trained", logit), ("best possible", log["true_logit"].astype(np.float64))):
        print(f"{name}: loss {loss(values, log['label']):.4f}, AUC {auc(values, log['label']):.4f}")


if __name__ == "__main__":
    main()
