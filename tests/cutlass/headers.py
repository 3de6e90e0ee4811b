"""CUTLASS and CUDA headers from PyPI wheels, pinned by version and digest, and programs compiled against them."""

import fcntl
import hashlib
import pathlib
import shutil
import subprocess
import sys
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
TRTLLM = "flashinfer/data/csrc/nv_internal/tensorrt_llm/cutlass_extensions/include/"

# package, version, digest of the wheel, folders taken from it. The wheels of CUDA are those of x86-64: headers are the same.
WHEELS = {
    "cutlass-4.5.0": ("flashinfer-python", "0.7.4", "a051a62e09a2738e8b0de47a1944fd2f0f3eff01b728b662141ea660cb09dd32",
                      ("flashinfer/data/cutlass/include/", TRTLLM)),
    "cutlass-4.2.0": ("nvidia-cutlass", "4.2.0.0", "f9599ada45c7bcb6bf53f7d3f0a7d154183e53451c01bfa59eecd37dd4a693f6",
                      ("cutlass_library/source/include/",)),
    "cuda-runtime": ("nvidia-cuda-runtime", "13.0.96",
                     "7f82250d7782aa23b6cfe765ecc7db554bd3c2870c43f3d1821f1d18aebf0548", ("nvidia/cu13/include/",)),
    "cuda-cccl": ("nvidia-cuda-cccl", "13.0.85", "e0da7ad981f3a8aff08241b5bfc1af868742a63e2762f53a5171c492ef242649",
                  ("nvidia/cu13/include/",)),
    "cuda-crt": ("nvidia-cuda-crt", "13.0.88", "2c8043c7c9e02492716426e9919fc78d2c5b3b2a7a768a88e952676b08aa55a4",
                 ("nvidia/cu13/include/",)),
}
RELEASES = ("4.5.0", "4.2.0")


def pip(folder):
    """A command that runs pip: this interpreter's, else that of a virtual environment in `folder`."""
    own = [sys.executable, "-m", "pip"]
    if subprocess.run([*own, "--version"], capture_output=True, check=False).returncode == 0:
        return own
    python = folder / "venv" / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
    return [str(python), "-m", "pip"]


def fetch(name, folder):
    """The folder with the headers of wheel `name`; downloaded once. Exits with an error for a wrong digest."""
    package, version, digest, parts = WHEELS[name]
    target = folder / f"{name}-{digest[:12]}"
    if target.is_dir():
        return target
    work = folder / f"{name}.work"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    command = [*pip(folder), "download", "-q", "--no-deps", "--disable-pip-version-check", "--only-binary", ":all:",
               "--platform", "manylinux2014_x86_64", "--platform", "manylinux_2_17_x86_64", "--python-version", "3.11",
               "--dest", str(work), f"{package}=={version}"]
    if subprocess.run(command, stdout=sys.stderr, check=False).returncode != 0:
        sys.exit(f"error: {package} {version} could not be downloaded; is the package index reachable?")
    wheel = next(work.glob("*.whl"))
    with open(wheel, "rb") as file:
        have = hashlib.file_digest(file, "sha256").hexdigest()
    if have != digest:
        sys.exit(f"error: {package} {version} has digest {have}, need {digest}")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(work / "out", [n for n in archive.namelist() if n.startswith(parts)])
    wheel.unlink()
    (work / "out").rename(target)
    shutil.rmtree(work)
    return target


def include_flags(release, folder):
    """-isystem flags for a release of CUTLASS; defines TETRAD_FINALIZE_VISITOR where the visitor is there."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "w", encoding="ascii") as lock:  # tests run side by side
        fcntl.flock(lock, fcntl.LOCK_EX)
        cutlass = fetch(f"cutlass-{release}", folder)
        cuda = [fetch(name, folder) / "nvidia/cu13/include" for name in ("cuda-runtime", "cuda-cccl", "cuda-crt")]
    parts = WHEELS[f"cutlass-{release}"][3]
    flags = [f for path in (*[cutlass / part for part in parts], *cuda, cuda[1] / "cccl") for f in ("-isystem", str(path))]
    return flags + (["-DTETRAD_FINALIZE_VISITOR"] if TRTLLM in parts else [])


def compile_program(compiler, source, program, release, folder, extra=()):
    """Compiles `source` as host code. -fpermissive: device functions that no argument leads to are not declared."""
    command = [compiler, "-std=c++17", "-O0", "-w", "-fpermissive", "-ffunction-sections", "-Wl,--gc-sections",
               "-include", str(HERE / "device_names.hpp"), *include_flags(release, folder), *extra, str(source), "-o",
               str(program)]
    run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if run.returncode != 0:
        errors = [line for line in run.stdout.splitlines() if "error" in line or "undefined" in line]
        sys.exit(f"error: {source.name} does not compile with CUTLASS {release}:\n" + "\n".join(errors[:20]))
