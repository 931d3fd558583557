#!/usr/bin/env python3
"""Plant one fault of each kind in a small tree and see the checkers find it, and nothing else."""
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent

CLEAN = {
    "runtime/base/key.h": "/*\n * key.h: keys.\n */\n#include <steergraph/status.h>\n",
    "runtime/base/key.c": '/*\n * key.c: keys.\n */\n#include "runtime/base/key.h"\n\n#include <xxhash.h>\n',
    "runtime/driver.c": "/*\n * driver.c: calls.\n */\n#include <cuda.h>\n#include <dlfcn.h>\n",
    "codegen/steer.h": '/*\n * steer.h: text.\n */\n#include "runtime/base/key.h"\n',
    "specs/json.c": "/*\n * json.c: values.\n */\n#include <cjson/cJSON.h>\n",
    "engine/plan.c": '/*\n * plan.c: joins.\n */\n#include "codegen/steer.h"\n#include "runtime/driver.h"\n',
    "engine/options.c": '/*\n * options.c: defaults.\n */\nchar *home = getenv("HOME");\n',
    "tools/run.c": '/*\n * run.c: a command.\n */\n#include <steergraph/steer.h>\n#include "engine/offline.h"\nvoid f(void) { printf("x"); }\n',
    "tools/cache/page/page.h": "/*\n * cache/page/page.h: a page.\n */\n",
    "tools/cache/ls.c": '/*\n * cache/ls.c: a list.\n */\n#include "engine/offline.h"\n#include "tools/cache/page/page.h"\n#include "tools/report.h"\n',
    "tools/bench/suite.c": '/*\n * suite.c: timings.\n */\n#include "runtime/driver.h"\n',
}

# checker, path, lines put at the end of that file (or a new one), what must be said
PLANTED = [
    ("layers", "codegen/bad.c", '#include "runtime/driver.h"', "no arrow leads from codegen to runtime"),
    ("layers", "runtime/bad.c", '#include "codegen/steer.h"', "no arrow leads from runtime to codegen"),
    ("layers", "runtime/bad.c", '#include "engine/plan.h"', "no arrow leads from runtime to engine"),
    ("layers", "runtime/base/bad.c", '#include "runtime/driver.h"', "no arrow leads from runtime/base to runtime"),
    ("layers", "specs/bad.c", '#include "codegen/steer.h"', "no arrow leads from specs to codegen"),
    ("layers", "specs/bad.c", "#include <steergraph/steer.h>", "specs may not include <steergraph/steer.h>"),
    ("layers", "engine/bad.c", '#include "tools/report.h"', "no arrow leads from engine to tools"),
    ("layers", "engine/oracle/bad.c", '#include "engine/cpu/steer.h"', "no arrow leads from engine/oracle"),
    ("layers", "tools/bad.c", '#include "runtime/driver.h"', "no arrow leads from tools to runtime"),
    ("layers", "tools/bad.c", '#include "engine/plan.h"', "no arrow leads from tools to engine"),
    ("layers", "tools/bad.c", '#include "codegen/steer.h"', "no arrow leads from tools to codegen"),
    ("layers", "tools/bad.c", '#include "tools/cache/sort.h"', "no arrow leads from tools to tools/cache"),
    ("layers", "tools/cache/bad.c", '#include "specs/json.h"', "no arrow leads from tools/cache to specs"),
    ("layers", "tools/cache/page/bad.c", '#include "engine/hostmem.h"', "no arrow leads from tools/cache to engine"),
    ("layers", "tools/examples/bad.c", '#include "engine/offline.h"', "no arrow leads from tools/examples to engine"),
    ("layers", "engine/bad.c", "#include <cuda.h>", "engine may not include <cuda.h>"),
    ("layers", "engine/bad.c", "#  include <cuda_runtime.h>", "engine may not include <cuda_runtime.h>"),
    ("layers", "engine/bad.c", "#include <nvtx3/nvToolsExt.h>", "engine may not include <nvtx3/nvToolsExt.h>"),
    ("layers", "codegen/bad.c", "#include <nvrtc.h>", "codegen may not include <nvrtc.h>"),
    ("layers", "codegen/bad.c", "#include <cJSON.h>", "codegen may not include <cJSON.h>"),
    ("layers", "specs/bad.c", '#include "json.h"', 'write "layer/file.h" from the root'),
    ("layers", "specs/bad.c", "#include <runtime/base/key.h>", "internal headers come in quotes"),
    ("layers", "specs/bad.c", '#include "steergraph/status.h"', "public headers come in angle brackets"),
    ("layers", "codegen/steer.c", "#include <stdio.h>", 'include "codegen/steer.h" first'),
    ("style", "engine/bad.c", 'void f(void) { printf("x"); }', "printf: the library never prints"),
    ("style", "specs/bad.c", "void f(void) { fputs(s, stderr); }", "fputs: the library never prints"),
    ("style", "codegen/bad.c", "void f(void) { abort(); }", "abort: the library never ends its host"),
    ("style", "runtime/bad.c", "void f(void) { exit (1); }", "exit: the library never ends its host"),
    ("style", "runtime/bad.c", 'char *s = getenv("X");', "getenv: the environment is read in"),
    ("style", "runtime/bad.c", "void *p = malloc(1);", "malloc: all heap goes through"),
    ("style", "specs/bad.c", "void f(void) { strcpy(a, b); }", "strcpy: unbounded or stateful"),
    ("style", "specs/bad.c", "/* TODO later */", "a TODO names its issue"),
    ("style", "specs/bad.c", "void f(void) { goto fail; }", "goto fail: the one label is out"),
    ("style", "specs/bad.c", "int x;\t", "tab or trailing blank"),
    ("style", "specs/bad.c", "int " + "x" * 100 + ";", "105 columns, at most 100"),
    ("style", "specs/bad.c", "int x;\n" * 499 + "int y;", "lines, at most 500"),
    ("style", "specs/headless.c", None, "begin with '/*' and ' * headless.c: '"),
]

# Looks like a fault to a plain grep, and is none.
INNOCENT = [
    ("layers", "codegen/ok.c", '/* #include "runtime/driver.h" would be wrong */'),
    ("style", "engine/ok.c", 'const char *s = "printf(x) and exit(1)"; /* abort() */'),
    ("style", "engine/ok.c", "void f(void) { stg_log_printf(l, 2, s); snprintf(b, n, s); stg_free(p); }"),
    ("style", "engine/ok.c", "void f(void) { t->free(p); t.exit(1); goto out; }"),
    ("style", "engine/ok.c", "/* TODO #12: later */"),
    ("style", "tools/ok.c", "void f(void) { exit(2); }"),
]


def write_tree(root: pathlib.Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def check(checker: str, extra: dict[str, str]) -> tuple[int, str]:
    with tempfile.TemporaryDirectory(prefix="steergraph-layers-") as folder:
        root = pathlib.Path(folder)
        write_tree(root, CLEAN | extra)
        done = subprocess.run(
            [sys.executable, HERE / f"check_{checker}.py", root], capture_output=True, text=True
        )
        return done.returncode, done.stdout + done.stderr


def with_head(path: str, text: str | None) -> str:
    head = f"/*\n * {pathlib.Path(path).name}: a planted file.\n */\n"
    return "int x;\n" if text is None else head + text + "\n"


def report(ok: bool, name: str, said: str) -> bool:
    print(f"{'ok' if ok else 'not ok'} - {name}")
    if not ok:
        print(said)
    return ok


def main() -> int:
    good = True
    for checker in ("layers", "style"):
        status, said = check(checker, {})
        good &= report(status == 0, f"{checker}: content with a clean tree", said)
        with tempfile.TemporaryDirectory() as empty:
            script = HERE / f"check_{checker}.py"
            status = subprocess.run([sys.executable, script, empty], capture_output=True).returncode
        good &= report(status == 1, f"{checker}: an empty tree is no success", "")
    for checker, path, text, expected in PLANTED:
        status, said = check(checker, {path: with_head(path, text)})
        lines = said.strip().splitlines()
        ok = status == 1 and len(lines) == 1 and lines[0].startswith(path) and expected in lines[0]
        good &= report(ok, f"{checker}: finds '{expected}'", said)
    for checker, path, text in INNOCENT:
        status, said = check(checker, {path: with_head(path, text)})
        good &= report(status == 0, f"{checker}: accepts {text}", said)
    # A whole tree copied into itself by a slip of a command line was committed once.
    status, said = check("layers", {f"--help/{path}": text for path, text in CLEAN.items()})
    ok = status == 1 and said.startswith("--help: no folder of the project") and said.count("\n") == 1
    good &= report(ok, "layers: finds a folder that is none of the project", said)
    status, said = check("layers", {f"{path}/x.c": "int x;\n" for path in ("build-x", ".x", "subprojects/x")})
    good &= report(status == 0, "layers: accepts builds, hidden folders and subprojects", said)
    return 0 if good else 1


raise SystemExit(main())
