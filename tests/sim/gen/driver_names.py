#!/usr/bin/env python3
"""Write the name tables of the simulated driver from the public CUDA headers.

The headers are preprocessed in the mode that declares every version of every entry point, so no
vendor library is needed. Output, in the folder given by --out:
  stubs.c    a weak "not supported" body for every public name
  wrappers.c the per-thread-default-stream form (*_ptsz, *_ptds) of every name
  table.c    base name, first CUDA version, kind and address, for cuGetProcAddress
  names.txt  the names, for the tests
It must not invent names: what is not in a header does not exist on the device either.
"""

import argparse
import os
import re
import subprocess
import sys

# Headers that every CUDA installation has, and those that exist with the graphics parts only.
CORE_HEADERS = ["cuda.h", "cudaProfiler.h"]
OPTIONAL_HEADERS = ["cudaGL.h", "cudaEGL.h", "cudaVDPAU.h"]
TYPEDEF_HEADERS = [
    "cudaTypedefs.h",
    "cudaProfilerTypedefs.h",
    "cudaGLTypedefs.h",
    "cudaEGLTypedefs.h",
    "cudaVDPAUTypedefs.h",
]
# Foreign headers that the graphics headers include; empty ones are enough to read names.
FOREIGN_HEADERS = ["GL/gl.h", "GL/glext.h", "EGL/egl.h", "EGL/eglext.h", "vdpau/vdpau.h"]

LEGACY, PER_THREAD = 0, 1
KIND_OF_SUFFIX = {"": LEGACY, "_ptsz": PER_THREAD, "_ptds": PER_THREAD}


def existing(include, headers):
    return [h for h in headers if os.path.exists(os.path.join(include, h))]


def write_foreign_headers(folder):
    for name in FOREIGN_HEADERS:
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        open(path, "w").close()


def preprocess(compiler, include, headers, out):
    foreign = os.path.join(out, "foreign")
    write_foreign_headers(foreign)
    source = "#define __CUDA_API_VERSION_INTERNAL\n"
    source += "".join(f"#include <{h}>\n" for h in headers)
    command = compiler.split() + ["-E", "-P", f"-I{include}", f"-I{foreign}", "-x", "c", "-"]
    result = subprocess.run(command, input=source, capture_output=True, text=True)
    if result.returncode != 0:
        raise RuntimeError(result.stderr.strip())
    return result.stdout


def prototypes(text):
    """Name -> parameter list as written."""
    found = {}
    for name, params in re.findall(r"\bCUresult\s+(cu\w+)\s*\(([^;{]*)\)\s*;", text):
        found[name] = " ".join(params.split())
    return found


def readable(compiler, include, headers, out):
    """Prototypes of the core headers, plus those optional headers that can be preprocessed."""
    core = prototypes(preprocess(compiler, include, existing(include, headers), out))
    extra = {}
    for header in existing(include, OPTIONAL_HEADERS):
        try:
            extra.update(prototypes(preprocess(compiler, include, ["cuda.h", header], out)))
        except RuntimeError as error:
            print(f"driver_names: {header} skipped: {error}", file=sys.stderr)
    return core, {n: p for n, p in extra.items() if n not in core}


def split_name(name):
    """cuMemcpyHtoD_v2_ptds -> (cuMemcpyHtoD, 2, _ptds)"""
    match = re.fullmatch(r"(cu\w+?)(?:_v(\d+))?(_ptsz|_ptds)?", name)
    return match.group(1), int(match.group(2) or 1), match.group(3) or ""


def typedef_versions(include):
    """(base, suffix) -> CUDA versions at which a new form of the function appeared."""
    versions = {}
    for header in existing(include, TYPEDEF_HEADERS):
        with open(os.path.join(include, header)) as file:
            text = file.read()
        for base, since, suffix in re.findall(
            r"\*PFN_(cu\w+?)_v(\d{4,5})(_ptsz|_ptds)?\)", text
        ):
            versions.setdefault((base, suffix), set()).add(int(since))
    return {key: sorted(value) for key, value in versions.items()}


def table_rows(names, versions):
    """The n-th symbol of a base name belongs to the n-th version at which it changed."""
    symbols = {}
    for name in names:
        base, number, suffix = split_name(name)
        symbols.setdefault((base, suffix), []).append((number, name))
    rows = []
    for (base, suffix), since in sorted(versions.items()):
        have = [name for _, name in sorted(symbols.get((base, suffix), []))]
        count = min(len(have), len(since))
        if count == 0:
            continue
        for version, symbol in zip(since[-count:], have[-count:]):
            rows.append((base, version, KIND_OF_SUFFIX[suffix], symbol))
    return rows


def argument_names(params):
    if params == "void":
        return []
    names = []
    for param in params.split(","):
        match = re.search(r"(\w+)\s*(?:\[\w*\])?$", param.strip())
        names.append(match.group(1))
    return names


def per_thread_body(name, params, base):
    arguments = ", ".join(argument_names(params))
    return (
        f"CUresult {name}({params})\n{{\n"
        f"    bool before = sim_per_thread_default(true);\n"
        f"    CUresult result = {base}({arguments});\n"
        f"    sim_per_thread_default(before);\n"
        f"    return result;\n}}\n"
    )


def stub_body(name):
    return f'__attribute__((weak)) int {name}(void)\n{{\n    return sim_unsupported("{name}");\n}}\n'


def base_of(name, names):
    base = re.sub(r"_pt[sd][zs]$", "", name)
    return base if base != name and base in names else None


def write_wrappers(path, core):
    with open(path, "w") as file:
        file.write("/* Generated from the CUDA headers. */\n#define __CUDA_API_VERSION_INTERNAL\n")
        file.write("#include <cuda.h>\n#include <stdbool.h>\nbool sim_per_thread_default(bool);\n")
        for name in sorted(core):
            base = base_of(name, core)
            if base:
                file.write(per_thread_body(name, core[name], base))


def write_stubs(path, names, wrapped):
    with open(path, "w") as file:
        file.write("/* Generated from the CUDA headers. */\nint sim_unsupported(const char *name);\n")
        for name in sorted(names - wrapped):
            file.write(f"int {name}(void);\n{stub_body(name)}")


def write_table(path, rows):
    with open(path, "w") as file:
        file.write('/* Generated from the CUDA headers. */\n#include "lookup.h"\n')
        for symbol in sorted({row[3] for row in rows}):
            file.write(f"int {symbol}(void);\n")
        file.write("const struct lookup_row lookup_table[] = {\n")
        for base, since, kind, symbol in rows:
            file.write(f'    {{"{base}", {since}, {kind}, "{symbol}", (lookup_fn *){symbol}}},\n')
        file.write("};\nconst unsigned lookup_rows = sizeof lookup_table / sizeof *lookup_table;\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--include", required=True, help="folder with cuda.h, cudaTypedefs.h")
    parser.add_argument("--out", required=True)
    parser.add_argument("--cc", default=os.environ.get("CC", "cc"))
    options = parser.parse_args()
    os.makedirs(options.out, exist_ok=True)
    for needed in ("cuda.h", "cudaTypedefs.h"):
        if not os.path.exists(os.path.join(options.include, needed)):
            sys.exit(f"driver_names: {options.include} holds no {needed}")
    core, extra = readable(options.cc, options.include, CORE_HEADERS, options.out)
    names = set(core) | set(extra)
    wrapped = {n for n in core if base_of(n, core)}
    rows = table_rows(names, typedef_versions(options.include))
    write_wrappers(os.path.join(options.out, "wrappers.c"), core)
    write_stubs(os.path.join(options.out, "stubs.c"), names, wrapped)
    write_table(os.path.join(options.out, "table.c"), rows)
    with open(os.path.join(options.out, "names.txt"), "w") as file:
        file.writelines(f"{name}\n" for name in sorted(names))
    print(f"driver_names: {len(names)} names, {len(rows)} rows", file=sys.stderr)


if __name__ == "__main__":
    main()
