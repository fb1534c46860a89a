"""The parts of the check of a GPU, in order: first whether Ebb is right there, then how fast."""
import importlib.util
import json
import os
import pathlib
import re
import shutil
import sys

from parts import Absent, Failed, Part

CALL = 350  # seconds of one run of the script, unless it is told otherwise

# Pools: one that two jobs fill at their largest batch, so that a large card acts as a small one, and
# one with room for both.
FULL = ("--memory", "15GB", "--steps", "12")
ROOM = ("--memory", "40GB", "--steps", "25")


def gtest(out):
    """What a GoogleTest program printed. A test in which it died is named as well."""
    failed = sorted(set(re.findall(r"^\[  FAILED  \] ([\w/]+\.[\w/]+)", out, re.M)))
    begun = re.findall(r"^\[ RUN      \] (\S+)", out, re.M)
    ended = re.findall(r"^\[ +(?:OK|FAILED|SKIPPED) +\] (\S+?)(?:,.*)? \(\d+ ms\)", out, re.M)
    passed = len(re.findall(r"^\[       OK \] ", out, re.M))
    figures = {"passed": passed, "failed": failed}
    if begun and begun[-1] not in ended:
        figures["died_in"] = begun[-1]
    if not begun:
        raise Failed("no test ran")
    return figures


def json_lines(out):
    """Objects that a program printed one a line, each as soon as it was known; the last may be cut."""
    figures = {}
    for line in out.splitlines():
        try:
            figures.update(json.loads(line))
        except (ValueError, TypeError):
            pass
    if not figures:
        raise Failed("it printed no figures")
    return figures


def nvidia_folders():
    """Where libraries of CUDA may be beside the system's own places: Python packages, the toolkit."""
    found = importlib.util.find_spec("nvidia")
    roots = list(found.submodule_search_locations or []) if found else []
    folders = [folder for root in roots for folder in sorted(pathlib.Path(root).glob("*/lib"))]
    return folders + [f for f in (pathlib.Path("/usr/local/cuda/lib64"),) if f.is_dir()]


class Catalog:
    """Parts of the programs in `bin`, with their libraries in `lib`; `scratch` is an empty folder."""

    def __init__(self, source, programs, libraries, scratch, device="cuda"):
        self.source, self.programs, self.scratch = source, programs, scratch
        self.device = device
        folders = ([libraries] if libraries else []) + nvidia_folders()
        own = os.environ.get("LD_LIBRARY_PATH", "")
        self.env = {"LD_LIBRARY_PATH": ":".join([str(f) for f in folders] + ([own] if own else [])),
                    "EBB_SOURCE_DIR": str(source), "OMP_WAIT_POLICY": "passive"}

    def program(self, name):
        for path in (self.programs / name, self.programs / "bin" / name,
                     self.programs / "tests" / name):
            if path.exists():
                return path
        raise Absent(f"there is no program {name} in {self.programs}")

    def test(self, name, about, seconds, only):
        return Part(name, about, seconds,
                    lambda: [self.program("ebb_gpu_tests"), f"--gtest_filter={only}"],
                    {**self.env, "EBB_TEST_DEVICE": self.device}, gtest)

    def bench(self, name, about, seconds, *args):
        out = self.scratch / f"{name}.json"
        return Part(name, about, seconds,
                    lambda: [self.program("ebb-bench"), *args, "--json", out], self.env,
                    lambda _: json.loads(out.read_text()) if out.exists() else None)

    def measure(self, section, about, seconds):
        return Part(section, about, seconds, lambda: [self.program("gpu_measure"), section],
                    self.env, json_lines)

    def together(self, name, about, seconds, models, *args):
        return self.bench(name, about, seconds, "together", "--device", self.device, "--models",
                          models, *args)

    def torch(self, name, about, seconds, *args):
        def read(out):
            figures = json_lines(out)
            if "absent" in figures:
                raise Absent(figures["absent"])
            return figures
        script = self.source / "bench" / "peers" / "torch_gpu.py"
        return Part(name, about, seconds, lambda: [sys.executable, script, *args], {}, read)

    def sanitizer(self):
        def make():
            tool = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
            if not pathlib.Path(tool).exists():
                raise Absent("compute-sanitizer is not installed")
            return [tool, "--tool", "memcheck", "--error-exitcode", "9",
                    self.program("ebb_gpu_tests"), "--gtest_filter=*DeviceContract.*"]

        def read(out):
            if "Device not supported" in out:
                raise Absent("compute-sanitizer does not support this machine: Device not supported")
            summary = re.findall(r"ERROR SUMMARY: (\d+) error", out)
            if not summary:
                raise Failed("compute-sanitizer printed no summary")
            return {**gtest(out), "errors": sum(int(n) for n in summary)}

        return Part("sanitizer", "memcheck of the contract", 50, make,
                    {**self.env, "EBB_TEST_DEVICE": self.device}, read)

    def same_bits(self):
        script = self.source / "tools" / "gpu_check" / "same_bits.py"
        return Part("graphs", "with CUDA graphs and without: the same bits", 20,
                    lambda: [sys.executable, script, self.program("ebb-bench"), self.device,
                             self.device + "+nographs", "mlp-adam,cnn-adam,encoder-128"],
                    self.env, json_lines)

    def first_call(self):
        """Whether Ebb is right, and what it is worth: at their limits they fit CALL."""
        return [
            Part("programs", "the programs run on this machine", 10,
                 lambda: [self.program("ebb-bench"), "--help"], self.env),
            self.test("contract", "what every device must do", 25, "*DeviceContract.*"),
            self.test("ops", "every op against ref", 35, "CpuVsRef.*"),
            self.test("golden", "small networks: gradients and 20 steps against PyTorch's", 25,
                      "*Golden.*"),
            self.test("cotrain", "co-trained jobs give the bits of solo runs", 25, "CoTraining.*"),
            self.together("small", "four small trials at once", 15, "cnn-16", "--jobs", "4",
                          "--memory", "2GB", "--steps", "300"),
            self.together("resnet50", "two jobs with room for both", 25, "resnet50", *ROOM,
                          "--batch", "64"),
            self.together("bert_base", "two jobs with room for both", 25, "bert_base_128", *ROOM,
                          "--batch", "32"),
            self.together("resnet50_bf16", "the same in bf16", 20, "resnet50", *ROOM, "--batch",
                          "64", "--precision", "bf16"),
            self.together("bert_base_bf16", "the same in bf16", 20, "bert_base_128", *ROOM,
                          "--batch", "32", "--precision", "bf16"),
            self.together("gpt2_bf16", "two jobs with room for both, in bf16", 25, "gpt2", *ROOM,
                          "--batch", "4", "--precision", "bf16"),
            self.torch("torch_solo", "PyTorch: ResNet-50, BERT-base and GPT-2 alone", 45, "solo"),
            self.torch("torch_shared", "PyTorch: the same jobs in turns, on streams, as processes",
                       55, "shared"),
        ]

    def second_call(self):
        """The rest, what is most likely to go wrong last: they fit CALL as well."""
        return [
            self.test("values", "losses and optimizers against PyTorch's values", 20,
                      "*Torch*-*Network.*"),
            self.test("networks", "known networks: gradients and 20 steps against PyTorch's", 50,
                      "*Network.*-*OnTheReference*"),
            self.test("cotrain_networks", "known networks in pairs: the bits of solo runs", 35,
                      "NetworksTogether.*"),
            self.same_bits(),
            self.measure("calls", "launches, graphs, events, waits: what they cost", 15),
            self.measure("overlap", "pairs of kernels on two streams", 20),
            self.measure("copies", "pinned copies alone, both ways, under load", 15),
            self.measure("mapping", "virtual-memory calls", 15),
            self.together("resnet50_full", "two jobs at their largest batch in a capped pool", 45,
                          "resnet50", *FULL),
            self.together("bert_base_full", "two jobs at their largest batch in a capped pool", 45,
                          "bert_base_128", *FULL),
            self.measure("faults", "migration of managed memory", 20),
            self.sanitizer(),
        ]

    def parts(self):
        return self.first_call() + self.second_call()
