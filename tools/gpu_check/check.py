#!/usr/bin/env python3
"""Checks Ebb on this machine's GPU and writes what it finds as JSON (docs/gpu_check.md).

  scripts/gpu_check --pack [DIR]     on a build machine: builds the programs and packs them into DIR
                                     with the libraries that a bare machine lacks (build-gpu)
  scripts/gpu_check [--out FILE]     on the GPU machine: runs the parts that are not ok yet in FILE

Exit codes: 0 every part is ok or what it needs is absent; 1 a part failed, timed out or is left for
another run, or the pack is too large; 2 wrong usage; 3 no GPU, or no programs to run.
"""
import argparse
import datetime
import json
import os
import pathlib
import platform
import signal
import subprocess
import sys
import tempfile

import pack
import parts
from catalog import CALL, Catalog

SOURCE = pathlib.Path(__file__).resolve().parents[2]
PARTS_FAILED, NOTHING_TO_RUN = 1, 3


def say(text):
    print(f"gpu_check: {text}", file=sys.stderr, flush=True)


def arguments():
    parser = argparse.ArgumentParser(prog="scripts/gpu_check", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pack", nargs="?", const="build-gpu", metavar="DIR")
    parser.add_argument("--build", default="build-gpu-programs", metavar="DIR",
                        help="where programs are built (build-gpu-programs)")
    parser.add_argument("--arch", default="90", help="CMAKE_CUDA_ARCHITECTURES of the build (90)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="of the build")
    parser.add_argument("--from", dest="packed", default="build-gpu", metavar="DIR",
                        help="the packed programs (build-gpu)")
    parser.add_argument("--out", default="gpu-check.json", metavar="FILE")
    parser.add_argument("--only", nargs="+", metavar="PART", help="these parts alone")
    parser.add_argument("--seconds", type=int, default=CALL,
                        help=f"for all parts together ({CALL})")
    parser.add_argument("--list", action="store_true", help="the parts, and what each is about")
    args = parser.parse_args()
    if args.seconds < 1 or args.jobs < 1:
        parser.error("--seconds and --jobs must be 1 or more")
    known = [part.name for part in Catalog(SOURCE, SOURCE, None, SOURCE).parts()]
    for name in args.only or []:
        if name not in known:
            parser.error(f"there is no part '{name}'; there are {', '.join(known)}")
    return args


def card():
    """(what the driver says of the GPU, or None; why there is none)."""
    command = [sys.executable, str(pathlib.Path(__file__).with_name("card.py"))]
    try:
        asked = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except subprocess.TimeoutExpired:
        return None, "the driver did not answer within 60 s"
    try:
        told = json.loads(asked.stdout)
    except ValueError:
        return None, f"the driver's library failed: {asked.stderr[-500:]}"
    return (told, "") if asked.returncode == 0 else (None, told["why"])


def programs(args):
    """(folder of programs, folder of libraries or None, commit), or raises Absent."""
    unpacked = pack.unpack(SOURCE / args.packed)
    if unpacked is not None:
        return unpacked
    build = SOURCE / args.build
    pack.build(SOURCE, build, args.jobs, args.arch)
    return build, None, pack.commit(SOURCE)


def machine():
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {"cpus": os.cpu_count(), "memory_bytes": memory, "kernel": platform.release(),
            "glibc": platform.libc_ver()[1], "python": platform.python_version()}


def check(args):
    device, why = card()
    if device is None:
        parts.Results(args.out, {"schema": 1, "commit": pack.commit(SOURCE), "card": None,
                                 "why": why, "machine": machine(), "date": now()}).write()
        say(f"no GPU here: {why}; written to {args.out}")
        return NOTHING_TO_RUN
    try:
        folder, libraries, commit = programs(args)
    except parts.Absent as absent:
        parts.Results(args.out, {"schema": 1, "commit": pack.commit(SOURCE), "card": device["name"],
                                 "device": device, "why": str(absent), "machine": machine(),
                                 "date": now()}).write()
        say(f"no programs to run: {absent}; written to {args.out}")
        return NOTHING_TO_RUN
    results = parts.Results(args.out, {"schema": 1, "commit": commit, "card": device["name"],
                                       "device": device, "machine": machine(), "date": now()})
    results.write()
    with tempfile.TemporaryDirectory() as scratch:
        catalog = Catalog(SOURCE, folder, libraries, pathlib.Path(scratch))
        chosen = [part for part in catalog.parts() if not args.only or part.name in args.only]
        good = parts.run_parts(chosen, results, args.seconds, say)
    say(f"{device['name']}, commit {commit}: written to {args.out}")
    return 0 if good else PARTS_FAILED


def now():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def main():
    # So that what runs is ended when this is.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    args = arguments()
    if args.list:
        for part in Catalog(SOURCE, SOURCE, None, SOURCE).parts():
            print(f"{part.name:18} {part.seconds:4} s  {part.about}")
        return 0
    if args.pack is None:
        return check(args)
    try:
        pack.build(SOURCE, SOURCE / args.build, args.jobs, args.arch)
        return pack.make(SOURCE, SOURCE / args.build, SOURCE / args.pack, say)
    except parts.Absent as absent:
        say(str(absent))
        return NOTHING_TO_RUN


if __name__ == "__main__":
    sys.exit(main())
