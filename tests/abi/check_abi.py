#!/usr/bin/env python3
"""Check that headers, version script, exported.txt and the built library name the same functions.

check_abi.py --headers DIR --map FILE --list FILE [--library FILE --nm NM]
check_abi.py --headers DIR --map FILE --list FILE --write     bring the map and the list up to date
"""
import argparse
import pathlib

import abi_names

MAP = """/* Every name that leaves the library; `ninja abi-update` writes it from the public headers. */
STG_0 {{
  global:
{names}
  local:
    *;
}};
"""


def differences(what: str, names: set[str], headers: set[str]) -> list[str]:
    return [f"{what}: lost {n}, which the headers declare" for n in sorted(headers - names)] + [
        f"{what}: {n} is in no public header" for n in sorted(names - headers)
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    for option in ("headers", "map", "list", "library"):
        parser.add_argument("--" + option, type=pathlib.Path)
    parser.add_argument("--nm", default="nm")
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()

    headers = abi_names.of_headers(args.headers)
    if not headers:
        print(f"{args.headers}: no STG_API function found")
        return 1
    if args.write:
        lines = "\n".join(f"    {name};" for name in sorted(headers))
        args.map.write_text(MAP.format(names=lines))
        args.list.write_text("".join(f"{name}\n" for name in sorted(headers)))
        return 0

    found = differences(args.map.name, abi_names.of_map(args.map), headers)
    found += differences(args.list.name, abi_names.of_list(args.list), headers)
    if args.library is not None:
        found += differences(args.library.name, abi_names.of_library(args.nm, args.library), headers)
    print("\n".join(found) if found else f"ok 1 - {len(headers)} functions, everywhere the same")
    return 1 if found else 0


raise SystemExit(main())
