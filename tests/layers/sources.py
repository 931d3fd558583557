"""The C files of a source tree, and their text without comments and strings."""
import pathlib
import re

FOLDERS = ("codegen", "engine", "runtime", "specs", "tests", "tools")
APART = {"subprojects", "__pycache__"}  # of meson and Python; no code of ours
SUFFIXES = {".c", ".h", ".def", ".cuh", ".in"}
QUIET = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL)


def files(root: pathlib.Path, folders: tuple[str, ...] = FOLDERS) -> list[pathlib.Path]:
    """Paths relative to `root`, sorted."""
    found = []
    for folder in folders:
        for path in (root / folder).rglob("*"):
            if path.suffix in SUFFIXES and path.is_file():
                found.append(path.relative_to(root))
    return sorted(found)


def strangers(root: pathlib.Path) -> list[pathlib.Path]:
    """Folders beside FOLDERS that look like a part of the project: no build, environment or hidden one."""
    found = []
    for path in sorted(root.iterdir()):
        known = path.name in APART.union(FOLDERS) or path.name.startswith((".", "build"))
        if path.is_dir() and not known and not (path / "pyvenv.cfg").is_file():
            found.append(path.relative_to(root))
    return found


def code(text: str) -> str:
    """Comments and literals blanked, line numbers kept."""
    return QUIET.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)
