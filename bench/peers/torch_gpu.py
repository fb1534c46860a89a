#!/usr/bin/env python3
"""The models that Ebb is measured with, trained by PyTorch: alone, and sharing a GPU in three ways.

  torch_gpu.py solo      each model alone, in fp32, TF32 and bf16 autocast
  torch_gpu.py shared    equal jobs: one process that takes turns, one process with a stream for each
                         job, a process for each job; and four small trials the same ways

Prints one line of JSON a figure, samples a second, as soon as it is known; {"absent": WHY} where
PyTorch or its GPU is not there. Inputs are drawn once and stay on the device. Modules: torch,
torchvision (resnet50), transformers (bert_base_128, gpt2).
"""
import argparse
import json
import os
import subprocess
import sys
import time

TOKENS = {"bert_base_128": 128, "gpt2": 1024}
BATCH = {"resnet50": 64, "bert_base_128": 32, "gpt2": 4, "cnn-16": 16}
PRECISIONS = ("fp32", "tf32", "bf16")


def say(**figures):
    print(json.dumps(figures), flush=True)


def why(error):
    return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"[:300]


class SmallCnn:
    """The job cnn-16 of ebb-bench: three convolutions with batch norm on 32 x 32 images."""

    @staticmethod
    def make(torch):
        layers = []
        for inputs in (3, 16, 16):
            layers += [torch.nn.Conv2d(inputs, 16, 3, padding=1, bias=False),
                       torch.nn.BatchNorm2d(16), torch.nn.ReLU()]
        return torch.nn.Sequential(*layers, torch.nn.MaxPool2d(2), torch.nn.Flatten(),
                                   torch.nn.Linear(16 * 16 * 16, 10))


def model_of(torch, name):
    if name == "cnn-16":
        return SmallCnn.make(torch)
    if name == "resnet50":
        import torchvision
        return torchvision.models.resnet50(weights=None)
    import transformers
    if name == "bert_base_128":
        return transformers.BertForMaskedLM(transformers.BertConfig())
    return transformers.GPT2LMHeadModel(transformers.GPT2Config())


class Job:
    """One model being trained, on the stream that is current when step() is called."""

    def __init__(self, torch, name, batch, precision, device, seed=1):
        self.torch, self.name, self.batch, self.device = torch, name, batch, device
        self.bf16 = precision == "bf16"
        torch.manual_seed(seed)
        self.model = model_of(torch, name).to(device).train()
        images = name in ("resnet50", "cnn-16")
        if images:
            side, classes = (224, 1000) if name == "resnet50" else (32, 10)
            self.x = torch.randn(batch, 3, side, side, device=device)
            self.y = torch.randint(classes, (batch,), device=device)
            self.model = self.model.to(memory_format=torch.channels_last)
            self.x = self.x.contiguous(memory_format=torch.channels_last)
            self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3, momentum=0.9)
        else:
            self.x = torch.randint(30000, (batch, TOKENS[name]), device=device)
            self.y = self.x.clone()
            if name == "bert_base_128":  # a loss at 15 % of the places
                self.y[torch.rand(self.y.shape, device=device) > 0.15] = -100
            self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-4)

    def step(self):
        torch = self.torch
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast(self.device, torch.bfloat16, enabled=self.bf16):
            if self.name in TOKENS:
                loss = self.model(input_ids=self.x, labels=self.y).loss
            else:
                loss = torch.nn.functional.cross_entropy(self.model(self.x), self.y)
        loss.backward()
        self.optimizer.step()


def set_precision(torch, precision):
    torch.backends.cuda.matmul.allow_tf32 = precision != "fp32"
    torch.backends.cudnn.allow_tf32 = precision != "fp32"
    torch.backends.cudnn.benchmark = True


def synchronize(torch, device):
    if device == "cuda":
        torch.cuda.synchronize()


def rate(torch, device, jobs, seconds, run):
    """Samples a second of all jobs, when run(job) enqueues a step of each in turn."""
    for _ in range(3):
        for job in jobs:
            run(job)
    synchronize(torch, device)
    begin, rounds = time.perf_counter(), 0
    while True:
        for _ in range(5):
            for job in jobs:
                run(job)
        synchronize(torch, device)
        rounds += 5
        passed = time.perf_counter() - begin
        if passed >= seconds:
            return rounds * sum(job.batch for job in jobs) / passed


def solo(torch, args):
    for name in args.models:
        for precision in args.precisions:
            key = f"{name}/{precision}"
            try:
                set_precision(torch, precision)
                job = Job(torch, name, args.batch or BATCH[name], precision, args.device)
                if args.device == "cuda":
                    torch.cuda.reset_peak_memory_stats()
                say(**{key: {"batch": job.batch,
                             "samples_per_s": rate(torch, args.device, [job], args.seconds,
                                                   Job.step),
                             **memory(torch, args.device)}})
                del job
                if args.device == "cuda":
                    torch.cuda.empty_cache()
            except Exception as error:  # a model or a memory that is not there: go on
                say(**{key: {"failed": why(error)}})


def memory(torch, device):
    if device != "cuda":
        return {}
    return {"peak_bytes": torch.cuda.max_memory_allocated(),
            "reserved_bytes": torch.cuda.max_memory_reserved()}


def in_turns(torch, args, name, count, precision):
    jobs = [Job(torch, name, args.batch or BATCH[name], precision, args.device, seed)
            for seed in range(count)]
    return rate(torch, args.device, jobs, args.seconds, Job.step)


def on_streams(torch, args, name, count, precision):
    if args.device != "cuda":
        raise RuntimeError("streams need a GPU")
    jobs = [Job(torch, name, args.batch or BATCH[name], precision, args.device, seed)
            for seed in range(count)]
    streams = {job: torch.cuda.Stream() for job in jobs}
    torch.cuda.synchronize()

    def run(job):
        with torch.cuda.stream(streams[job]):
            job.step()
    return rate(torch, args.device, jobs, args.seconds, run)


def as_processes(args, name, count, precision):
    """All warm up, then all begin at one time; the sum of what each does until its own end."""
    command = [sys.executable, os.path.abspath(__file__), "worker", "--device", args.device,
               "--models", name, "--precisions", precision, "--seconds", str(args.seconds)]
    if args.batch:
        command += ["--batch", str(args.batch)]
    workers = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
               for _ in range(count)]
    try:
        for worker in workers:
            line = worker.stdout.readline()
            if line.strip() != "ready":
                raise RuntimeError(f"a process did not begin: {line.strip() or 'no output'}")
        for worker in workers:
            worker.stdin.write("go\n")
            worker.stdin.flush()
        return sum(float(worker.stdout.readline()) for worker in workers)
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()


def work(torch, args):
    """One of the processes: says when it is warm, waits for the word, prints its rate."""
    name = args.models[0]
    set_precision(torch, args.precisions[0])
    job = Job(torch, name, args.batch or BATCH[name], args.precisions[0], args.device)
    for _ in range(5):
        job.step()
    synchronize(torch, args.device)
    print("ready", flush=True)
    sys.stdin.readline()
    print(rate(torch, args.device, [job], args.seconds, Job.step), flush=True)


def shared(torch, args):
    for precision in args.precisions:
        set_precision(torch, precision)
        for name in args.models:
            count = 4 if name == "cnn-16" else args.jobs
            for way, measure in (("processes", lambda *a: as_processes(args, *a)),
                                 ("turns", lambda *a: in_turns(torch, args, *a)),
                                 ("streams", lambda *a: on_streams(torch, args, *a))):
                key = f"{count} x {name}/{precision}/{way}"
                try:
                    say(**{key: {"batch": args.batch or BATCH[name],
                                 "samples_per_s": measure(name, count, precision)}})
                    if args.device == "cuda":
                        torch.cuda.empty_cache()
                except Exception as error:
                    say(**{key: {"failed": why(error)}})


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["solo", "shared", "worker"])
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--models", nargs="+", choices=sorted(BATCH))
    parser.add_argument("--precisions", nargs="+", choices=PRECISIONS)
    parser.add_argument("--batch", type=int, help="instead of each model's own")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=1.5, help="of each figure")
    args = parser.parse_args()
    try:
        import torch
    except ImportError as error:
        say(absent=why(error))
        return
    if args.device == "cuda" and not torch.cuda.is_available():
        say(absent="PyTorch sees no GPU")
        return
    if args.what == "solo":
        args.models = args.models or ["resnet50", "bert_base_128", "gpt2"]
        args.precisions = args.precisions or list(PRECISIONS)
        say(torch=torch.__version__)
        solo(torch, args)
    elif args.what == "shared":
        args.models = args.models or ["cnn-16", "resnet50", "bert_base_128"]
        args.precisions = args.precisions or ["fp32", "bf16"]
        shared(torch, args)
    else:
        work(torch, args)


if __name__ == "__main__":
    main()
