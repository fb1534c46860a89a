"""The demo behind scripts/demo: six jobs, each alone and then all at once in too little memory.

Runs the six jobs of this directory alone (once with the threads that co-training gives a job, once
with one, once with all cores), then together in a pool below 60 % of the sum of what they need
alone. Prints who held which memory meanwhile, a table, and checks; exits with 1 if a check fails.
Python 3 standard library only.
"""

import argparse
import calendar
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
# Epochs: enough for each job to run for seconds, so that rates and overlap mean something.
JOBS = {
    "digits-mlp-adam": 200,
    "digits-mlp-sgd": 200,
    "digits-cnn-adam": 60,
    "digits-cnn-sgd": 60,
    "digits-resnet-adam": 45,
    "digits-resnet-sgd": 45,
}
HASHED = "digits-resnet-adam"  # whose parameters' hashes are printed; all six are compared
MEMORY_SHARE = 0.59
FINAL = ("succeeded", "failed", "cancelled")


class DemoError(Exception):
    pass


def say(text=""):
    print(text, flush=True)


def mib(count):
    return f"{count / 2**20:.2f} MiB"


def seconds_of(stamp):
    """Seconds since the epoch of an RFC 3339 stamp in UTC with up to nine decimals."""
    whole, _, rest = stamp.partition("+")[0].partition(".")
    return calendar.timegm(time.strptime(whole, "%Y-%m-%dT%H:%M:%S")) + float("0." + (rest or "0"))


class Daemon:
    """An ebbd of its own on a private socket, and its command line."""

    def __init__(self, bin_dir, memory, threads):
        self.bin_dir = bin_dir
        self.dir = tempfile.mkdtemp(prefix="ebb-demo-")
        self.server = os.path.join(self.dir, "ebbd.sock")
        self.log = open(os.path.join(self.dir, "log"), "w+")
        self.process = subprocess.Popen(
            [os.path.join(bin_dir, "ebbd"), "--socket", self.server,
             "--state_dir", os.path.join(self.dir, "state"), "--memory", str(memory),
             "--threads_per_stream", str(threads)],
            stderr=self.log, stdin=subprocess.DEVNULL)

    def __enter__(self):
        deadline = time.monotonic() + 30
        while subprocess.run([os.path.join(self.bin_dir, "ebb"), "device", "--server", self.server],
                             capture_output=True).returncode != 0:
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.log.seek(0)
                message = self.log.read()
                self.__exit__()
                raise DemoError(f"ebbd did not start:\n{message}")
            time.sleep(0.02)
        return self

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()
        shutil.rmtree(self.dir, ignore_errors=True)

    def ebb(self, command, *args):
        done = subprocess.run(
            [os.path.join(self.bin_dir, "ebb"), command, "--server", self.server, *args],
            capture_output=True, text=True)
        if done.returncode != 0:
            message = f"ebb {command} {' '.join(args)}: {done.stderr.strip()}"
            if self.process.poll() is not None:
                self.log.seek(0)
                message += f"\nebbd has ended with {self.process.returncode}:\n{self.log.read()}"
            raise DemoError(message)
        return done.stdout

    def submit(self, name):
        self.ebb("submit", os.path.join(HERE, name + ".yaml"), "--set", f"stop.epochs={JOBS[name]}")

    def jobs(self):
        return {job["name"]: job for job in json.loads(self.ebb("ps", "--json"))["jobs"]}

    def result(self, name, job):
        """What the table needs of a job that has ended."""
        if job["state"] != "succeeded":
            raise DemoError(f"{name} {job['state']}: {job['message']}")
        begun, ended = seconds_of(job["submitted"]), seconds_of(job["finished"])
        weights = os.path.join(self.dir, "weights")
        self.ebb("get", name, "--format", "safetensors", "-o", weights)
        digest = subprocess.run(["sha256sum", weights], capture_output=True, text=True, check=True)
        os.remove(weights)
        return {
            "peak": job["resident_bytes"] + job["staging_bytes"] + job["step_peak_bytes"],
            "accuracy": job["metrics"].get("val/accuracy", 0.0),
            "begun": begun,
            "ended": ended,
            "wall": ended - begun,
            "rate": job["step"] / (ended - seconds_of(job["started"])),
            "hash": digest.stdout.split()[0],
        }


def run_alone(bin_dir, threads):
    """Every job alone, one after the other, with `threads` threads and memory to spare."""
    results = {}
    with Daemon(bin_dir, "256MiB", threads) as daemon:
        for name in JOBS:
            daemon.submit(name)
            while (job := daemon.jobs()[name])["state"] not in FINAL:
                time.sleep(0.1)
            result = results[name] = daemon.result(name, job)
            say(f"  {name:19} {result['wall']:6.2f} s  {result['rate']:7.1f} steps/s  "
                f"peak {mib(result['peak'])}  accuracy {result['accuracy']:.4f}")
    return results


def run_together(bin_dir, threads, memory):
    """All jobs at once; returns the results and the daemon's memory report at the end."""
    with Daemon(bin_dir, memory, threads) as daemon:
        for name in JOBS:
            daemon.submit(name)
        shown = 0.0
        while True:
            jobs = daemon.jobs()
            if all(job["state"] in FINAL for job in jobs.values()):
                break
            if time.monotonic() - shown >= 3:
                shown = time.monotonic()
                say("  " + "  ".join(f"{name.removeprefix('digits-')} {job['step']}/{job['total_steps']}"
                                     for name, job in jobs.items()))
                for line in daemon.ebb("memory").splitlines():
                    if line.startswith(("pool", "lane")):
                        say("    " + line)
            time.sleep(0.25)
        results = {name: daemon.result(name, jobs[name]) for name in JOBS}
        return results, json.loads(daemon.ebb("memory", "--json"))


def print_table(alone, together):
    rows = [("JOB", "ACCURACY", "STEPS/S ALONE", "STEPS/S CO-TRAINED", "PEAK ALONE", "PEAK CO-TRAINED")]
    for name in JOBS:
        a, t = alone[name], together[name]
        rows.append((name, f"{t['accuracy']:.4f}", f"{a['rate']:.1f}", f"{t['rate']:.1f}",
                     f"{a['peak']:,}", f"{t['peak']:,}"))
    widths = [max(len(row[c]) for row in rows) for c in range(len(rows[0]))]
    for row in rows:
        say("  ".join(cell.ljust(w) if c == 0 else cell.rjust(w)
                      for c, (cell, w) in enumerate(zip(row, widths))).rstrip())


class Checks:
    def __init__(self):
        self.failed = 0

    def check(self, ok, text):
        self.failed += not ok
        say(f"  {'ok  ' if ok else 'FAIL'}  {text}")

    @staticmethod
    def skip(text):
        say(f"  SKIP  {text}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--bin", default=os.path.join(HERE, "..", "build", "bin"),
                        help="directory of ebbd and ebb (default: build/bin)")
    args = parser.parse_args()
    for program in ("ebbd", "ebb"):
        if not os.access(os.path.join(args.bin, program), os.X_OK):
            raise DemoError(f"{args.bin} has no {program}; build it first, or run scripts/demo")

    cores = len(os.sched_getaffinity(0))
    threads = max(1, cores // 4)  # of a job while others train beside it
    say(f"{len(JOBS)} jobs: three networks, each with Adam and with SGD; {cores} core(s)")
    runs = {}
    for count in sorted({1, threads, cores}):
        say(f"\nEach job alone, {count} thread(s) a job:")
        runs[count] = run_alone(args.bin, count)
    alone = runs[threads]
    fastest = {name: min(run[name]["wall"] for run in runs.values()) for name in JOBS}
    peaks = sum(result["peak"] for result in alone.values())
    memory = int(peaks * MEMORY_SHARE)

    say(f"\nAll together, {threads} thread(s) a job, in {mib(memory)} "
        f"({100 * memory / peaks:.1f} % of the {mib(peaks)} that they need alone).\n"
        "A lane's picture: # held, ~ released but still in use on the device, . free; one step grows\n"
        "from the left, another from the right, into what the first has given up:")
    together, report = run_together(args.bin, threads, memory)
    wall = max(r["ended"] for r in together.values()) - min(r["begun"] for r in together.values())
    sequential = sum(fastest.values())

    say()
    print_table(alone, together)
    say(f"memory: {peaks:,} bytes for all alone, {report['pool_bytes']:,} co-trained\n"
        f"wall time: {wall:.2f} s co-trained, {sequential:.2f} s one after the other, "
        "each run the fastest way")
    say(f"SHA-256 of the parameters of {HASHED}:\n"
        f"  alone       {alone[HASHED]['hash']}\n  co-trained  {together[HASHED]['hash']}")

    overlap = report["overlap"]
    deep = overlap["deep"] / max(1, overlap["samples"])
    concurrent = overlap["concurrent_us"] / max(1, overlap["wall_us"])
    say("\nChecks:")
    checks = Checks()
    worst = min(r["accuracy"] for r in together.values())
    checks.check(worst >= 0.95, f"every held-out accuracy is at least 0.95 (lowest {worst:.4f})")
    same = sum(alone[name]["hash"] == together[name]["hash"] for name in JOBS)
    checks.check(same == len(JOBS), f"parameters alone and co-trained are the same bits ({same} of {len(JOBS)} jobs)")
    checks.check(report["pool_bytes"] < 0.6 * peaks,
                 f"memory is below 60 % of the sum alone ({100 * report['pool_bytes'] / peaks:.1f} %)")
    checks.check(deep >= 0.30, "two jobs together held more than either's own peak in at least 30 % "
                               f"of the scheduling decisions ({100 * deep:.1f} %)")
    if cores > 1:
        checks.check(concurrent >= 0.50, "two or more jobs executed at once for at least half of the "
                                         f"time ({100 * concurrent:.1f} %)")
        checks.check(wall <= sequential, "co-training is no slower than one after the other "
                                         f"({wall:.2f} s, {sequential:.2f} s)")
    else:
        checks.skip("two jobs executing at once: cannot be shown on one core")
        checks.skip("co-training no slower than one after the other: cannot be shown on one core")
    return 1 if checks.failed else 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        sys.exit(main())
    except DemoError as error:
        sys.exit(f"demo: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
