"""The names that the library exports, as each place that lists them says."""
import pathlib
import re
import subprocess

COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
DECLARATION = re.compile(r"\bSTG_API\b[^;{]*?\b(stg_\w+)\s*\(")


def of_headers(folder: pathlib.Path) -> set[str]:
    """Functions marked STG_API in the public headers (and their templates)."""
    names: set[str] = set()
    for path in sorted(folder.glob("*.h")) + sorted(folder.glob("*.h.in")):
        text = COMMENT.sub(" ", path.read_text())
        text = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
        names.update(DECLARATION.findall(text))
    return names


def of_map(path: pathlib.Path) -> set[str]:
    """Names of the version script."""
    text = COMMENT.sub(" ", path.read_text())
    names = re.search(r"global:(.*?)local:", text, re.DOTALL)
    if names is None:
        raise SystemExit(f"{path}: no 'global: ... local:' part")
    return set(re.findall(r"(\w+)\s*;", names.group(1)))


def of_list(path: pathlib.Path) -> set[str]:
    """One name per line."""
    return set(path.read_text().split())


def of_library(nm: str, path: pathlib.Path) -> set[str]:
    """Dynamic symbols the built library defines, without the version node itself."""
    out = subprocess.run(
        [nm, "-D", "--defined-only", str(path)], check=True, capture_output=True, text=True
    ).stdout
    names = set()
    for line in out.splitlines():
        _, kind, name = line.split()
        if kind != "A":
            names.add(name.split("@")[0])
    return names
