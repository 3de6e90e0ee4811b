#!/usr/bin/env python3
"""Checks who includes whom, and what the library must not do.   scripts/check_layers.py [--self-test]

The direction is that of HACKING.md. A finding is printed as file:line: reason; the exit code is 1 if there is any.
"""

import pathlib
import re
import sys
import tempfile

# Folder of src/ -> the folders whose internal headers it may include.
MODULES = {
    "core": {"core"},
    "format": {"core", "format"},
    "checkpoint": {"core", "format", "checkpoint"},
    "weight": {"core", "format", "checkpoint", "weight"},
    "device": {"core", "device"},
    "select": {"core", "select"},
    "kernels": {"core", "format", "weight", "device", "kernels"},
    "binary": {"core", "device", "binary"},
    "runtime": {"core", "format", "weight", "device", "kernels", "runtime"},
}
# Public headers a folder of src/ may use; a folder that is not listed may use those that are not in FORBIDDEN.
PUBLIC_ONLY = {
    "core": {"error", "parallel", "problem", "types"},
    "select": {"candidate", "device", "error", "fit", "plan", "problem", "records", "software", "target", "types",
               "verdict"},
}
FORBIDDEN = {
    "format": {"candidate", "checkpoint", "kernels", "plan", "records", "verdict"},
    "checkpoint": {"candidate", "kernels", "plan", "records", "verdict"},
    "weight": {"candidate", "kernels", "plan", "records", "verdict"},
    "device": {"candidate", "checkpoint", "kernels", "plan", "records", "verdict"},
    "binary": {"candidate", "checkpoint", "kernels", "plan", "records", "verdict"},
    "kernels": {"checkpoint"},
    "runtime": {"checkpoint"},
}
# Roots of third-party headers, and the folders that may include them.
PACKAGES = {
    "nlohmann/": {"checkpoint", "device", "select", "tools"},
    "CLI/": {"tools"},
    "hwy/": {"core", "format", "kernels", "device", "runtime"},
    "fmt/": set(MODULES) | {"tools"},
}
# Headers for programs that use CUTLASS: a header of ours that includes any of these is included by nothing else of ours.
CUTLASS_HEADERS = "include/tetrad/cutlass"
CUDA_OR_TORCH = re.compile(r"^(cuda|cublas|cutlass|cute/|torch|ATen|c10)")
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]')
# The library never prints, ends the program or reads the environment.
ACTIONS = re.compile(r"\b(std::cout|std::cerr|printf|puts|fputs|std::exit|_Exit|abort|getenv|secure_getenv)\s*(\(|<<)")
CODE_SUFFIXES = {".cpp", ".hpp", ".cu", ".cuh", ".h"}


def include_findings(area, name):
    """Reasons why a file of `area` (a module, "include" or "tools") may not include `name`."""
    public = name[len("tetrad/"):-len(".hpp")] if name.startswith("tetrad/") and name.endswith(".hpp") else None
    for package, allowed in PACKAGES.items():
        if name.startswith(package):
            if area not in allowed:
                yield f"{area} may not include {package}"
    if area == CUTLASS_HEADERS:
        if name.startswith("tetrad/") and not name.startswith("tetrad/cutlass/"):
            yield f"{area} stands alone"
        return
    if name.startswith("tetrad/cutlass/"):
        yield f"{area} may not include tetrad/cutlass/"
    if CUDA_OR_TORCH.match(name) and area not in {"kernels", "runtime", "device"}:
        yield f"{area} may not include CUDA or torch headers"
    if area == "include":
        if public is None and "/" in name:
            yield "public headers include tetrad/ and the standard library alone"
        return
    if public is not None:
        if public in FORBIDDEN.get(area, set()) or (area in PUBLIC_ONLY and public not in PUBLIC_ONLY[area]):
            yield f"{area} may not see tetrad/{public}.hpp"
        return
    folder = name.split("/")[0]
    if "/" in name and folder in MODULES:
        if area == "tools":
            # Text helpers (edit distance and the like) are the one internal header that tools share.
            if name != "core/text.hpp":
                yield f"tools see include/ and their own headers, not {name}"
        elif folder not in MODULES[area]:
            yield f"{area} may not include {folder}/"


def findings(root):
    found = []
    for top in ("include", "src", "tools"):
        for path in sorted((root / top).rglob("*")):
            if path.suffix not in CODE_SUFFIXES:
                continue
            area = path.relative_to(root / "src").parts[0] if top == "src" else top
            relative = path.relative_to(root)
            if str(relative).startswith(CUTLASS_HEADERS + "/"):
                area = CUTLASS_HEADERS
            if area not in MODULES and top == "src":
                found.append(f"{relative}:1: folder {area} is not in the list of scripts/check_layers.py")
                continue
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                match = INCLUDE.match(line)
                if match:
                    found += [f"{relative}:{number}: {why}" for why in include_findings(area, match.group(1))]
                elif top == "src" and ACTIONS.search(line.split("//")[0]):
                    found.append(f"{relative}:{number}: the library never prints, ends the program or reads the environment")
    return found


def self_test():
    """Each rule finds its own bad line, and a good file is left alone."""
    bad = {
        "src/format/a.cpp": '#include "checkpoint/x.hpp"\n',
        "src/select/a.cpp": '#include "tetrad/kernels.hpp"\n',
        "src/select/b.cpp": "#include <cuda_runtime.h>\n",
        "src/kernels/a.cpp": '#include "tetrad/checkpoint.hpp"\n',
        "src/runtime/a.cpp": '#include "checkpoint/x.hpp"\n',
        "src/kernels/b.cpp": "#include <nlohmann/json.hpp>\n",
        "include/tetrad/c.hpp": "#include <nlohmann/json.hpp>\n",
        "src/device/b.cpp": 'const char* a = std::getenv("A");\n',
        "src/core/a.cpp": '  printf("%d", 1);\n',
        "src/strange/a.cpp": "\n",
        "include/tetrad/a.hpp": "#include <fmt/core.h>\n",
        "include/tetrad/b.hpp": '#include "core/text.hpp"\n',
        "include/tetrad/cutlass/a.hpp": '#include "tetrad/plan.hpp"\n',
        "tools/tetrad/b.cpp": '#include "tetrad/cutlass/good.hpp"\n',
        "tools/tetrad/a.cpp": '#include "kernels/table.hpp"\n',
    }
    good = {
        "src/checkpoint/good.cpp": '#include "format/x.hpp"\n#include <nlohmann/json.hpp>\n#include "tetrad/tensor.hpp"\n',
        "tools/tetrad/good.cpp": '#include "cli.hpp"\n#include "core/text.hpp"\n#include "tetrad/plan.hpp"\n',
        "include/tetrad/cutlass/good.hpp": '#include <cuda_runtime_api.h>\n#include "cutlass/cutlass.h"\n',
        "include/tetrad/good.hpp": '#include <vector>\n#include "tetrad/error.hpp"\n',
    }
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name, text in {**bad, **good}.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text, encoding="utf-8")
        named = {finding.split(":")[0] for finding in findings(root)}
    if named != set(bad):
        print("self-test: not found:", sorted(set(bad) - named), "wrongly found:", sorted(named - set(bad)))
        return 1
    return 0


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    found = findings(pathlib.Path(__file__).resolve().parent.parent)
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
