#!/usr/bin/env python3
"""Proves the lane model (formal/lane.pml) with Spin, and that the proof can fail.

  lane_test.py --cc COMPILER safety|progress|broken_rules

safety: every state that can be reached, no assertion fails and none is a dead-lock.
progress: in every infinite execution, under weak fairness, every job makes steps for ever.
broken_rules: with one rule broken at a time, Spin finds the failure that is to be expected.
Exits with 77, which ctest shows as "Skipped", when spin is not installed.
"""
import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

MODEL = pathlib.Path(__file__).resolve().parents[2] / "formal" / "lane.pml"
MEGABYTES = 2000  # a run may use
SECONDS = 240     # far more than a run needs, on a machine that is busy with other tests

SAFETY = {
    "two jobs, any policy, two dropped steps": ["JOBS=2", "DROPS=2"],
    "two jobs of two sub-models, all profiles": ["JOBS=2", "SUBS=2", "SIZE=3", "ANY_PROFILE"],
    "three jobs, any policy": ["JOBS=3"],
    "three jobs, first in first out, a dropped step": ["JOBS=3", "RANKS=1", "DROPS=1"],
}
PROGRESS = {
    f"{jobs} jobs, {policy}, job {who}": [f"JOBS={jobs}", f"RANKS={ranks}", f"WHO={who}"]
    for jobs, ranks, policy in [(2, 2, "any policy"), (3, 2, "two ranks")] for who in range(jobs)
}
OVERLAP = r"assertion violated .*executing\[0\].*\+.*executing\[1\].*<=5"
CLOBBER = r"assertion violated .*alive\[.*<=5"
DISORDER = r"assertion violated +!\(\(\(executing\[0\]&&executing\[1\]\)"
DEADLOCK = r"invalid end state"
STARVES = r"acceptance cycle"
BROKEN = {
    "the follower's test is dropped": (["NO_TEST"], CLOBBER),
    "what is held afterwards instead of the extent": (["HELD_AFTER"], CLOBBER),
    "whoever fits is granted": (["GREEDY"], DEADLOCK),
    "only the top end waits": (["ONE_END_WAITS"], OVERLAP),
    "launches of departed steps are ignored": (["DEPARTED_IGNORED"], f"{CLOBBER}|{OVERLAP}"),
    "a wait for an event to be recorded, which passes": (["UNRECORDED_PASSES"], OVERLAP),
    "a wait for an event to be recorded, which blocks": (["UNRECORDED_BLOCKS"], DEADLOCK),
    "a job starts on one end while it executes on the other": (["ELSEWHERE_STARTS"], DISORDER),
    "no ageing": (["JOBS=3", "NO_AGEING", "WHO=0"], STARVES),
}


class Failure(Exception):
    pass


def call(command, folder):
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        raise Failure(f"{command[0]} took more than {SECONDS} s")
    return done.returncode, done.stdout + done.stderr


def verify(compiler, defines):
    """What pan, the verifier that Spin makes, prints."""
    live = any(d.startswith("WHO=") for d in defines)
    with tempfile.TemporaryDirectory(prefix="ebb-lane-") as folder:
        code, output = call(["spin", "-a", *[f"-D{d}" for d in defines], str(MODEL)], folder)
        if code != 0 or "rror" in output:
            raise Failure(f"spin refuses the model:\n{output}")
        kind = ["-DNFAIR=3"] if live else ["-DSAFETY"]
        code, output = call([compiler, "-w", "-O1", f"-DMEMLIM={MEGABYTES}", "-DCOLLAPSE", *kind,
                             "-o", "pan", "pan.c"], folder)
        if code != 0:
            raise Failure(f"{compiler} refuses the verifier:\n{output}")
        _, output = call(["./pan", "-m3000000", *(["-a", "-f"] if live else [])], folder)
        return output


def number(pattern, output):
    found = re.search(pattern, output)
    if not found:
        raise Failure(f"the verifier did not finish:\n{output}")
    return float(found.group(1))


def proves(compiler, defines):
    output = verify(compiler, defines)
    for fault in ("not completed", "too small", "pan:1:", "truncated"):
        if fault in output:
            raise Failure(output)
    if number(r"errors: (\d+)", output) != 0:
        raise Failure(output)
    states = number(r"(\d+(?:\.\d+)?(?:e\+?\d+)?) states, stored", output)
    return f"{int(states)} states, {number(r'([0-9.]+).total actual memory', output):.0f} MB"


def finds(compiler, defines, expected):
    output = verify(compiler, defines)
    found = re.search(r"^pan:1: (.*)$", output, re.MULTILINE)
    if not found:
        raise Failure(f"nothing was found:\n{output}")
    if not re.search(expected, found.group(1)):
        raise Failure(f"something else was found: {found.group(1)}")
    return re.sub(r"^(assertion violated|invalid end state|acceptance cycle).*\((at depth \d+)\)$",
                  r"\1 \2", found.group(1))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cc", default="gcc")
    parser.add_argument("part", choices=["safety", "progress", "broken_rules"])
    arguments = parser.parse_args()
    if shutil.which("spin") is None:
        print("SKIPPED: spin is not installed (scripts/setup installs it)")
        return 77
    if arguments.part == "broken_rules":
        runs = {name: lambda d=defines, e=expected: finds(arguments.cc, d, e)
                for name, (defines, expected) in BROKEN.items()}
    else:
        cases = SAFETY if arguments.part == "safety" else PROGRESS
        runs = {name: lambda d=defines: proves(arguments.cc, d) for name, defines in cases.items()}
    failed = 0
    for name, run in runs.items():
        begun = time.monotonic()
        try:
            print(f"ok    {name}: {run()}, {time.monotonic() - begun:.1f} s", flush=True)
        except Failure as failure:
            failed += 1
            print(f"FAIL  {name}: {failure}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
