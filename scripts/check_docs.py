#!/usr/bin/env python3
"""Checks Markdown against the tree and the built command.   scripts/check_docs.py TETRAD_BINARY | --self-test

Every path, `tetrad` verb and flag, kernel name, `make` word and message id that Markdown names must exist, and every
message id in the sources must have its section in docs/errors.md. Findings are printed as file:line: reason.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

TOP_FOLDERS = ("include/", "src/", "tools/", "data/", "tests/", "bench/", "docs/", "examples/", "cmake/", "scripts/",
               "python/", ".ci/")
CODE = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\]\(([^)\s#]+)(?:#[^)\s]*)?\)")
KERNEL = re.compile(r"\b(?:cpu|sm\d+|vendor|ref)_(?:w4a16|w4a8|w4a4)_[a-z0-9_]+\b")
ID = re.compile(r"\bT[EP]\d{4}\b")
FLAG = re.compile(r"(?<![\w-])--?[a-z][a-z0-9-]*")
GLOBAL_FLAGS = {"-h", "--help", "-q", "--quiet", "-v", "--verbose", "--json", "--version", "--color", "--data"}
# Written by builds and runs, so absent from a clean tree.
PRODUCED = ("build/", ".model/", ".venv/")
SOURCES = {".cpp", ".hpp", ".cu"}


class Facts:
    """What exists: verbs with their flags, kernels, ids of docs/errors.md, words of the Makefile."""

    def __init__(self, root, verbs, kernels):
        self.root, self.verbs, self.kernels = root, verbs, kernels
        errors = root / "docs/errors.md"
        self.ids = re.findall(r"^### (T[EP]\d{4}) ", errors.read_text(encoding="utf-8") if errors.exists() else "", re.M)
        makefile = root / "Makefile"
        text = makefile.read_text(encoding="utf-8") if makefile.exists() else ""
        self.make_words = set(re.findall(r"^([a-z-]+):", text, re.M))


def ask_binary(binary):
    def run(*words):
        return subprocess.run([binary, *words], capture_output=True, text=True, check=False).stdout

    # A line of the first screen: the group's name or blanks in 17 columns, then the verb.
    verbs = {}
    for name in re.findall(r"^(?:[A-Z][a-z ]{16}| {17})([a-z]+) {2,}\S", run("--help"), re.M):
        text = run(name, "--help")
        if text.startswith("usage") or f"Usage: tetrad {name}" in text:
            verbs[name] = set(re.findall(r"(?<![\w-])--?[a-z][a-z0-9-]*", text)) | GLOBAL_FLAGS
    kernels = set()
    if "kernels" in verbs:
        kernels = set(KERNEL.findall(json.dumps(json.loads(run("kernels", "--json")))))
    return verbs, kernels


def path_exists(root, base, text):
    text = text.rstrip("/").split(":")[0]
    pattern = re.sub(r"<[^>]*>", "*", text)
    for start in (root, base):
        if any(mark in pattern for mark in "*{["):
            options = [pattern]
            match = re.search(r"\{([^}]*)\}", pattern)
            if match:
                options = [pattern.replace(match.group(0), part) for part in match.group(1).split(",")]
            if all(any(start.glob(option)) for option in options):
                return True
        elif (start / text).exists():
            return True
    return False


def command_findings(facts, text):
    """`text` starts at the word tetrad of a command line."""
    words = re.split(r"\s+", re.sub(r'"[^"]*"|\'[^\']*\'', "QUOTED", text.split("#")[0]).strip())
    rest = [word for word in words[1:] if word not in ("|", "&&", "\\")]
    verb = next((word for word in rest if re.fullmatch(r"[a-z]+", word)), None)
    if verb is None:
        return
    if verb not in facts.verbs:
        yield f"tetrad has no command '{verb}'"
        return
    for word in rest:
        if word in ("|", ">", "&&", ";"):
            break
        match = FLAG.match(word)
        if match and match.group(0) not in facts.verbs[verb]:
            yield f"tetrad {verb} has no flag '{match.group(0)}'"


def line_findings(facts, page, line, in_block):
    codes = [line] if in_block else CODE.findall(line)
    for code in codes:
        stripped = re.sub(r"^\$ ", "", code.strip())
        if stripped.startswith("tetrad ") or (in_block and re.match(r"\S*/tetrad ", stripped)):
            if not re.match(r"tetrad (\d|<|\.)", stripped):
                yield from command_findings(facts, stripped)
        match = re.match(r"make ([a-z-]+)", stripped)
        if match and not in_block and match.group(1) not in facts.make_words:
            yield f"the Makefile has no '{match.group(1)}'"
        if not in_block and not re.search(r"\s", code) and code.startswith(TOP_FOLDERS):
            if not code.startswith(PRODUCED) and not path_exists(facts.root, page.parent, code):
                yield f"no such path: {code}"
    if not in_block:
        for target in LINK.findall(line):
            if not re.match(r"[a-z]+:", target) and not (page.parent / target).exists():
                yield f"no such path: {target}"
    for kernel in KERNEL.findall(line):
        if kernel not in facts.kernels and not any(name.startswith(kernel) for name in facts.kernels):
            yield f"no such kernel: {kernel}"
    for name in ID.findall(line):
        if name not in facts.ids:
            yield f"no such id in docs/errors.md: {name}"


def findings(facts):
    found = []
    for folder, folders, files in os.walk(facts.root):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in ("build", "shared"))
        for name in sorted(files):
            page = pathlib.Path(folder) / name
            relative = page.relative_to(facts.root)
            if page.suffix == ".md":
                in_block = False
                for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
                    if line.lstrip().startswith("```"):
                        in_block = not in_block
                        continue
                    found += [f"{relative}:{number}: {why}" for why in line_findings(facts, page, line, in_block)]
            elif page.suffix in SOURCES and relative.parts[0] in ("src", "tools"):
                for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
                    for used in ID.findall(line):
                        if used not in facts.ids:
                            found.append(f"{relative}:{number}: {used} has no section in docs/errors.md")
    used = set()
    for top in ("src", "tools", "include"):
        for path in (facts.root / top).rglob("*"):
            if path.suffix in SOURCES:
                used |= set(ID.findall(path.read_text(encoding="utf-8")))
    found += [f"docs/errors.md:1: {name} is used nowhere" for name in facts.ids if name not in used]
    found += [f"docs/errors.md:1: {name} has two sections" for name in set(facts.ids) if facts.ids.count(name) > 1]
    return found


def self_test():
    bad = {
        "a.md": "see `src/none.cpp`\n", "b.md": "run `tetrad plam x`\n", "c.md": "run `tetrad plan --no-such`\n",
        "d.md": "the kernel cpu_w4a16_missing\n", "e.md": "[x](docs/none.md)\n", "f.md": "`make nothing`\n",
        "g.md": "TE9999 is an id\n", "h.md": "```\ntetrad plan --nope\n```\n",
        "src/a.cpp": 'auto id = "TE0888";\n',
    }
    good = {
        "good.md": "`src/good.cpp`, `src/*.cpp`, `tetrad plan \"m1 n2\" --device x --json`, [e](docs/errors.md), `make test`, "
                   "cpu_w4a16_here, TE0001\n```\n$ tetrad plan --device gb10 | head\n```\n",
        "src/good.cpp": '"TE0001"\n', "docs/errors.md": "### TE0001 title\n### TE0002 unused\n",
        "Makefile": "test:\n",
    }
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name, text in {**bad, **good}.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text, encoding="utf-8")
        found = findings(Facts(root, {"plan": {"--device"} | GLOBAL_FLAGS}, {"cpu_w4a16_here"}))
    named = {finding.split(":")[0] for finding in found}
    if named != set(bad) | {"docs/errors.md"}:
        print("self-test: findings were", found)
        return 1
    return 0


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    if len(sys.argv) != 2:
        print(__doc__)
        return 2
    verbs, kernels = ask_binary(sys.argv[1])
    if not verbs:
        print(f"{sys.argv[1]} lists no commands")
        return 2
    found = findings(Facts(pathlib.Path(__file__).resolve().parent.parent, verbs, kernels))
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
