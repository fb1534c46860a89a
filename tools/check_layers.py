#!/usr/bin/env python3
"""Proves that layers point one way: every #include of ours goes to the same folder or one below it.

The arrows are those of docs/architecture.md. Exits 1 and prints each offending include otherwise.
"""
import pathlib
import re
import sys

# folder -> folders that it may include.
LOWER = {"base": []}
LOWER["graph"] = ["base"]
LOWER["memory"] = ["base"]
LOWER["scheduler"] = ["memory", "base"]
LOWER["partitioner"] = ["graph", "base"]
LOWER["perfmodel"] = ["partitioner", "graph", "base"]
LOWER["device"] = ["perfmodel", "graph", "memory", "base"]
LOWER["model"] = ["graph", "base"]
LOWER["data"] = ["graph", "base"]
LOWER["runtime"] = ["data", "model", "partitioner", "perfmodel", "device", "scheduler", "memory",
                    "graph", "base"]
LOWER["proto"] = ["base"]
# The command line pushes the rows of files, and reads them as the daemon does; it reads fabrics.
LOWER["client"] = ["proto", "data", "perfmodel", "partitioner", "graph", "base"]
LOWER["daemon"] = ["runtime", "proto"] + LOWER["runtime"]
# Around the layers: may see everything.
FREE = {"tests", "bench", "examples"}
# Headers that only one folder may name.
VENDOR = {
    r"oneapi/dnnl|dnnl\.h": {"device/cpu"},
    r"cuda|cudnn|cublas|nvrtc": {"device/cuda"},
    r"grpcpp|google/protobuf|ebb/v1": {"daemon", "client", "proto"},
    r"png\.h|jpeglib\.h|arrow/|parquet/": {"data"},
    r"onnx/|onnx\.pb|onnx-ml\.pb": {"model"},
}
INCLUDE = re.compile(r'^\s*#\s*include\s+["<]([^">]+)[">]')


def main() -> int:
    root = pathlib.Path(__file__).resolve().parent.parent
    faults = []
    for path in sorted(root.rglob("*")):
        rel = path.relative_to(root)
        if path.suffix not in {".h", ".cc", ".cu", ".cuh"} or rel.parts[0].startswith(("build", ".")):
            continue
        folder = rel.parts[0]
        if folder not in LOWER and folder not in FREE:
            faults.append(f"{rel}: folder '{folder}' is in no layer (see tools/check_layers.py)")
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            match = INCLUDE.match(line)
            if not match or folder in FREE:
                continue
            target = match.group(1)
            top = target.split("/")[0] if "/" in target else ""
            if top in LOWER and top != folder and top not in LOWER[folder]:
                faults.append(f"{rel}:{number}: {folder} may not include {target}")
            if top in FREE:
                faults.append(f"{rel}:{number}: {folder} may not include {target}")
            for pattern, owners in VENDOR.items():
                if re.match(pattern, target) and not any(str(rel).startswith(o) for o in owners):
                    faults.append(f"{rel}:{number}: only {', '.join(sorted(owners))} may include {target}")
    print("\n".join(faults) if faults else "layers: ok")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
