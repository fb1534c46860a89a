#!/usr/bin/env python3
"""Which GPU is here, by the driver's own library: prints one line of JSON. Exit code 3: none, and
`why`. A process of its own, since a sick driver can hang whoever asks it."""
import ctypes
import json
import shutil
import subprocess
import sys


def none(why):
    print(json.dumps({"why": why}))
    sys.exit(3)


def main():
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        none(f"no CUDA driver: {error}")

    def call(name, *args):
        code = getattr(cuda, name)(*args)
        if code != 0:
            text = ctypes.c_char_p()
            cuda.cuGetErrorName(code, ctypes.byref(text))
            none(f"{name}: {(text.value or b'error').decode()} ({code})")

    call("cuInit", 0)
    count, version, major, minor, sms = (ctypes.c_int() for _ in range(5))
    call("cuDeviceGetCount", ctypes.byref(count))
    if count.value == 0:
        none("the driver sees no GPU")
    device, name, memory = ctypes.c_int(), ctypes.create_string_buffer(256), ctypes.c_size_t()
    call("cuDeviceGet", ctypes.byref(device), 0)
    call("cuDeviceGetName", name, 256, device)
    call("cuDeviceTotalMem_v2", ctypes.byref(memory), device)
    call("cuDriverGetVersion", ctypes.byref(version))
    for attribute, into in ((75, major), (76, minor), (16, sms)):
        call("cuDeviceGetAttribute", ctypes.byref(into), attribute, device)
    card = {"name": name.value.decode(), "gpus": count.value, "memory_bytes": memory.value,
            "compute": f"{major.value}.{minor.value}", "multiprocessors": sms.value,
            "cuda_of_driver": f"{version.value // 1000}.{version.value % 1000 // 10}"}
    if shutil.which("nvidia-smi"):
        fields = "driver_version,clocks.max.sm,clocks.max.memory,power.limit,ecc.mode.current"
        asked = subprocess.run(["nvidia-smi", "-i", "0", f"--query-gpu={fields}",
                                "--format=csv,noheader"], capture_output=True, text=True,
                               timeout=20, check=False)
        if asked.returncode == 0:
            card.update(zip(fields.split(","), asked.stdout.strip().split(", ")))
    print(json.dumps(card))


if __name__ == "__main__":
    main()
