#!/usr/bin/env python3
"""Trains the same jobs on two devices and holds their results against each other, bit by bit:
same_bits.py EBB_BENCH DEVICE OTHER MODELS. Prints one line of JSON. Exit code 1: they differ."""
import json
import pathlib
import subprocess
import sys
import tempfile


def bits(program, device, models, folder):
    """SHA-256 of the results of jobs alone and together, by model."""
    out = pathlib.Path(folder, "figures.json")
    done = subprocess.run([program, "together", "--device", device, "--models", models, "--jobs",
                           "2", "--memory", "2GB", "--steps", "30", "--json", str(out)],
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"on {device}: {done.stderr}")
    return {row["name"]: {way: row[way]["sha256"] for way in ("alone", "together")}
            for row in json.loads(out.read_text())["equal_jobs"]}


def main():
    program, device, other, models = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        one, two = (bits(program, name, models, folder) for name in (device, other))
    if not all(hashes for ways in one.values() for hashes in ways.values()):
        sys.exit(f"{device} computes no values")
    differ = [name for name in one if one[name] != two[name]]
    print(json.dumps({"devices": [device, other], "models": sorted(one), "differ": differ}))
    sys.exit(1 if differ else 0)


if __name__ == "__main__":
    main()
