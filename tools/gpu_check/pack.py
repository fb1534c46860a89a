"""Builds the programs of the check without daemon and client, and packs them with the shared
libraries that a machine with nothing but a CUDA driver lacks: not CUDA's, not the C library."""
import datetime
import json
import platform
import re
import shutil
import subprocess
import tarfile

from parts import Absent

LIMIT = 60_000_000  # bytes of a pack
ARCHIVE, INDEX = "programs.tar.gz", "pack.json"
# target: folder of the build
PROGRAMS = {
    "ebb-bench": "bin", "gpu_measure": "bin", "ebb_gpu_tests": "tests"}
# Of the machine's C library, and of its CUDA.
LEFT_OUT = re.compile(r"^(ld-linux.*|lib(c|m|dl|rt|pthread|resolv|util|mvec|anl)\.so.*"
                      r"|lib(cuda|cudart|cublas|cublasLt|cudnn|nvrtc|nvJitLink|nvidia-ml|cupti).*)$")


def commit(source):
    """Of the checkout, with a + where files differ from it; "unknown" where git does not know."""
    def git(*args):
        return subprocess.run(["git", "-C", str(source), *args], capture_output=True, text=True,
                              check=True).stdout.strip()
    try:
        changed = git("status", "--porcelain", "--untracked-files=no")
        return git("rev-parse", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def run(command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          check=False)
    if done.returncode != 0:
        end = (done.stdout + done.stderr)[-3000:]
        raise Absent(f"'{' '.join(str(word) for word in command)}' failed: {end}")
    return done.stdout


def build(source, folder, jobs, architectures):
    for tool in ("cmake", "ninja"):
        if shutil.which(tool) is None:
            raise Absent(f"neither packed programs nor {tool} to build them with: make a pack on a "
                         "build machine by scripts/gpu_check --pack and copy it here")
    run(["cmake", "-S", source, "-B", folder, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
         "-DEBB_CUDA=ON", "-DEBB_DAEMON=OFF",
         f"-DCMAKE_CUDA_ARCHITECTURES={architectures}"])
    run(["ninja", "-C", folder, "-j", jobs, *PROGRAMS])


def libraries(program):
    """Paths of the shared libraries that the program needs and the pack takes along."""
    found = {}
    for line in run(["ldd", program]).splitlines():
        name, _, rest = line.strip().partition(" => ")
        if not rest or LEFT_OUT.match(name):
            continue
        if rest.startswith("not found"):
            raise Absent(f"{program} needs {name}, which is not on this machine")
        found[name] = rest.split(" (")[0]
    return found


def make(source, build_folder, target, say):
    """Packs what was built into `target`; 0, or 1 when that is larger than it may be."""
    shutil.rmtree(target, ignore_errors=True)
    files = target / "files"
    for folder in ("bin", "lib"):
        (files / folder).mkdir(parents=True)
    needed = {}
    for program, folder in PROGRAMS.items():
        needed.update(libraries(build_folder / folder / program))
        run(["strip", "-o", files / "bin" / program, build_folder / folder / program])
    for name, path in needed.items():
        run(["strip", "--strip-unneeded", "-o", files / "lib" / name, path])
    sizes = {str(file.relative_to(files)): file.stat().st_size
             for file in sorted(files.rglob("*")) if file.is_file()}
    (target / INDEX).write_text(json.dumps({
        "commit": commit(source), "packed": str(datetime.datetime.now(datetime.timezone.utc)),
        "glibc": platform.libc_ver()[1], "files": sizes}, indent=1) + "\n")
    with tarfile.open(target / ARCHIVE, "w:gz", compresslevel=6) as archive:
        archive.add(files, arcname=".")
    shutil.rmtree(files)
    total = sum(file.stat().st_size for file in target.iterdir())
    say(f"{len(PROGRAMS)} programs and {len(needed)} libraries, {total / 1e6:.1f} MB packed, "
        f"{sum(sizes.values()) / 1e6:.1f} MB unpacked, in {target}")
    if total <= LIMIT:
        return 0
    largest = sorted(sizes, key=sizes.get, reverse=True)[:6]
    say(f"more than the {LIMIT / 1e6:.0f} MB that it may be; the largest: " +
        ", ".join(f"{name} {sizes[name] / 1e6:.1f}" for name in largest))
    return 1


def unpack(target):
    """(folder of programs, folder of libraries, commit) of a pack; None where there is none."""
    if not (target / INDEX).exists():
        return None
    index = (target / INDEX).read_text()
    files = target / "files"
    mark = files / INDEX
    if not mark.exists() or mark.read_text() != index:  # none, or those of an earlier pack
        shutil.rmtree(files, ignore_errors=True)
        with tarfile.open(target / ARCHIVE) as archive:
            archive.extractall(files)
        mark.write_text(index)
    return files / "bin", files / "lib", json.loads(index)["commit"]
