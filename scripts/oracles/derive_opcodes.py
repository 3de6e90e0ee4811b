#!/usr/bin/env python3
"""Derives the instruction table of the binary reader from nvdisasm's listings, and checks it.

  derive_opcodes.py derive CUBIN... > src/binary/cubin/opcodes.def
  derive_opcodes.py check TABLE CUBIN...        every instruction by the table against its mnemonic
  derive_opcodes.py golden CUBIN... > counts    per kernel, by mnemonics alone; needs no table

A machine instruction of sm_70 and newer has 16 bytes: two little-endian words, lo and hi. Bits 0 to 11 of lo are the
operation with the form of its operands. Most operations have one mnemonic; where several share the bits, the fields in
fields_of tell them apart. These came from inverting single bits of real instructions and disassembling the result: a bit
outside the fields never changed the mnemonic's class. nvdisasm is looked for in NVDISASM, CUDA_HOME, PATH.
"""

import collections
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

# Mnemonic (its first word; the second regular expression sees all words) -> class of include/tetrad/cubin.hpp.
PLAIN = {name: name.lower() for name in (
    "OMMA UTCOMMA QMMA QGMMA UTCQMMA HMMA HGMMA UTCHMMA IMMA IGMMA UTCIMMA BMMA BGMMA DMMA LDL STL LDG STG LDS STS "
    "LDSM LDGSTS UTMALDG UTMASTG UBLKCP LDTM STTM").split()}
PACKED = [
    (re.compile(r"^F2FP\.(?:\w+\.)*E2M1\.(?:F32|F16|BF16\w*)\.(?:\w*PACK\w*)"), "fp4_pack"),
    (re.compile(r"^F2FP\.(?:\w+\.)*(?:F16|BF16\w*)\.E2M1\."), "fp4_unpack"),
    (re.compile(r"^F2FP\..*(?:E2M3|E3M2)\."), "fp6_convert"),
    (re.compile(r"^F2FP\..*(?:E4M3|E5M2)\."), "fp8_convert"),
]
# Masks of several 4-bit codes at once. The second row is E2M1 moved to its place in two half or bfloat16 numbers.
NIBBLES = {0x0F0F0F0F, 0xF0F0F0F0, 0x000F000F, 0x00F000F0, 0x0F000F00, 0xF000F000,
           0x70007000, 0x07000700, 0x0E000E00, 0x01C001C0}
LOP3_IMMEDIATE = 0x812  # lo bits 32 to 63 are the mask
LINE = re.compile(r"/\*([0-9a-f]{4,})\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_]*(?:\.[A-Z0-9_]+)*)(.*?)"
                  r"/\* 0x([0-9a-f]{16}) \*/")
SECOND = re.compile(r"^\s+/\* 0x([0-9a-f]{16}) \*/")
SECTION = re.compile(r"^\s+\.section\s+\"?\.text\.([^\",]+)")
NUMBER = re.compile(r"(?<![\w.])(-?0x[0-9a-f]+)")


def nvdisasm():
    home = os.environ.get("CUDA_HOME", "/usr/local/cuda")
    for path in (os.environ.get("NVDISASM"), os.path.join(home, "bin", "nvdisasm"), shutil.which("nvdisasm")):
        if path and os.path.exists(path):
            return path
    sys.exit("nvdisasm not found: pip install nvidia-cuda-nvdisasm and set NVDISASM")


def listing(path):
    """(section, mnemonic with modifiers, operands, lo, hi) of every instruction."""
    done = subprocess.run([nvdisasm(), "-c", "-ndf", "-hex", path], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{path}: {done.stderr.strip()[:300]}")
    section, first = None, None
    for line in done.stdout.splitlines():
        match = LINE.search(line)
        if match:
            first = (match.group(2), match.group(3), int(match.group(4), 16))
        elif first and (match := SECOND.match(line)):
            yield section, *first, int(match.group(1), 16)
            first = None
        elif (match := SECTION.match(line)):
            section = match.group(1)


def class_of(mnemonic, operands):
    head = mnemonic.split(".")[0]
    if head in PLAIN:
        return PLAIN[head]
    if head == "F2FP":
        return next((name for pattern, name in PACKED if pattern.match(mnemonic)), None)
    if head == "LOP3" and any(int(text, 16) & 0xFFFFFFFF in NIBBLES for text in NUMBER.findall(operands)):
        return "nibble_mask"
    return None


def bits(*numbers):
    return sum(1 << (number - 64) for number in numbers)


def fields_of(head, lo, hi):
    """Masks of the operation, of lo and of hi that choose among mnemonics which share an operation."""
    if re.match(r"UTC[A-Z]MMA", head):
        # Bit 63 with scales of 4-bit operands; without it, bits 72 and 73 are the kind.
        return 0xFFF, 1 << 63, 0 if lo >> 63 else bits(72, 73)
    if head == "F2FP":
        # Bit 90: narrow results, whose type is in bits 76 and 85 to 87. Else bit 89: narrow operands. All forms.
        return 0x1FF, 0, bits(76, 85, 86, 87, 90) if hi & bits(90) else bits(73, 74, 82, 83, 89, 90)
    return 0xFFF, 0, 0


def architecture(path):
    flags = int.from_bytes(pathlib.Path(path).read_bytes()[48:52], "little")
    return (flags >> 8) & 0xFF if flags >> 24 else flags & 0xFF


def derive(paths):
    rows = collections.defaultdict(collections.Counter)   # (class, op, masks, values) -> sm -> count
    heads = collections.defaultdict(set)                  # op, and op without its form -> first words seen
    for path in paths:
        sm = architecture(path)
        for _, mnemonic, operands, lo, hi in listing(path):
            head = mnemonic.split(".")[0]
            heads[lo & 0xFFF].add("UTCxMMA" if re.match(r"UTC[A-Z]MMA", head) else head)
            heads["F2FP" if lo & 0x1FF == 0x03E else None].add(head)
            kind = class_of(mnemonic, operands)
            if kind and kind != "nibble_mask":
                ops, low, high = fields_of(head, lo, hi)
                rows[(kind, ops, lo & ops, low, lo & low, high, hi & high)][sm] += 1
    used = {row[2] for row in rows} | {"F2FP"}
    mixed = {op: sorted(names) for op, names in heads.items() if len(names) > 1 and op in used}
    if mixed:
        sys.exit(f"operations with several mnemonics: {mixed}")
    print("// Machine instructions of sm_70 and newer by class. Made by scripts/oracles/derive_opcodes.py derive; after //:")
    print("// how often nvdisasm printed the class's mnemonic for the pattern, by architecture.")
    print("// TETRAD_SASS(class, mask of the operation, its value, mask of lo, its value, mask of hi, its value)")
    for key in sorted(rows):
        kind, ops, op, low, low_value, high, high_value = key
        seen = " ".join(f"sm_{sm}:{count}" for sm, count in sorted(rows[key].items()))
        print(f"TETRAD_SASS({kind}, 0x{ops:03x}, 0x{op:03x}, 0x{low:x}, 0x{low_value:x}, 0x{high:x}, 0x{high_value:x})  // {seen}")
    for mask in sorted(NIBBLES):
        print(f"TETRAD_SASS(nibble_mask, 0xfff, 0x{LOP3_IMMEDIATE:x}, 0xffffffff00000000, 0x{mask:08x}00000000, 0x0, 0x0)")


def table(path):
    rows = []
    for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines():
        match = re.match(r"TETRAD_SASS\((\w+), (\w+), (\w+), (\w+), (\w+), (\w+), (\w+)\)", line)
        if match:
            rows.append((match.group(1), *(int(text, 16) for text in match.groups()[1:])))
    return {op: [(kind, *masks) for kind, ops, value, *masks in rows if op & ops == value] for op in range(4096)}


def check(path, paths):
    rows, bad, seen = table(path), collections.Counter(), 0
    for cubin in paths:
        for _, mnemonic, operands, lo, hi in listing(cubin):
            seen += 1
            got = next((kind for kind, low, low_value, high, high_value in rows[lo & 0xFFF]
                        if lo & low == low_value and hi & high == high_value), None)
            want = class_of(mnemonic, operands)
            if got != want:
                bad[(mnemonic, f"{lo & 0xFFF:03x}", want, got, f"{hi:016x} {lo:016x}" if len(bad) < 20 else "")] += 1
    for key, count in bad.most_common(40):
        print(count, *key)
    print(f"{seen} instructions of {len(paths)} cubins, {sum(bad.values())} not as nvdisasm names them")
    return 1 if bad else 0


def golden(paths):
    out = {}
    for path in paths:
        kernels = collections.defaultdict(collections.Counter)
        for section, mnemonic, operands, _, _ in listing(path):
            kernels[section]["instructions"] += 1
            kind = class_of(mnemonic, operands)
            if kind:
                kernels[section][kind] += 1
        out[pathlib.Path(path).name] = {name: dict(sorted(counts.items())) for name, counts in sorted(kernels.items())}
    return out


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    word, *rest = sys.argv[1:]
    sys.exit({"derive": lambda: derive(rest), "golden": lambda: print(json.dumps(golden(rest), indent=1)),
              "check": lambda: check(rest[0], rest[1:])}[word]())
