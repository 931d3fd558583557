"""Structs, enums, statuses and functions of the package against the headers, through a compiler.

Called with the library, the source root, the include folders, "--" and the words of the compiler.
"""
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import support  # noqa: F401  # puts the package on the path
import tap
from steergraph import _abi, _abi_attention, _abi_components, _abi_region, _abi_steering, _errors
from steergraph import chains

SPLIT = sys.argv.index("--")
ROOT, INCLUDES, COMPILER = pathlib.Path(sys.argv[2]), sys.argv[3:SPLIT], sys.argv[SPLIT + 1 :]
HEADERS = ROOT / "engine" / "include" / "steergraph"

# Of the offline cache reader, of counters, which the package reads as JSON, and of the proof search,
# which is C alone.
NOT_BRIDGED_STRUCTS = {
    "stg_atom",
    "stg_cache_difference",
    "stg_cache_entry",
    "stg_cache_export_options",
    "stg_cache_export_result",
    "stg_cache_gc_result",
    "stg_cache_graph",
    "stg_cache_graph_edge",
    "stg_cache_graph_node",
    "stg_cache_graph_slot",
    "stg_cache_import_options",
    "stg_cache_import_result",
    "stg_cache_layer",
    "stg_cache_left_out",
    "stg_cache_limits",
    "stg_cache_param",
    "stg_cache_totals",
    "stg_cache_victim",
    "stg_proof",
    "stg_prover_counts",
    "stg_prover_desc",
    "stg_prover_launch_desc",
    "stg_prover_memory",
    "stg_prover_rule",
    "stg_prover_run_desc",
    "stg_prover_state",
    "stg_prover_step",
    "stg_prover_weights",
    "stg_stats",
}
NOT_BRIDGED_FUNCTIONS = re.compile(r"stg_cache_\w+|stg_engine_stats|stg_prover_\w+")

ENUMS = {
    "STG_DTYPE_NONE STG_": _abi.DTYPE,
    "STG_BACKEND_": _abi.BACKEND,
    "STG_COMPILE_": _abi.COMPILE_MODE,
    "STG_LAUNCH_": _abi.LAUNCH_MODE,
    "STG_CACHE_": _abi.CACHE_MODE,
    "STG_LOG_": _abi.LOG_LEVEL,
    "STG_STATE_": _abi_steering.STATE,
    "STG_EPILOGUE_": _abi_steering.EPILOGUE,
    "STG_PHASE_": _abi_steering.PHASE,
    "STG_ORDER_": _abi_attention.ORDER,
    "STG_QKV_": _abi_attention.LAYOUT,
    "STG_PAIRS_": _abi_attention.PAIRS,
    "STG_ROUND_": _abi_attention.ROUND,
    "STG_TRIG_": _abi_attention.TRIG,
    "STG_SCALING_": _abi_attention.SCALING,
    "STG_XPOS_": _abi_attention.XPOS,
    "STG_COMPONENTS_": _abi_components.MATH,
    "STG_MASK_": _abi_components.MASK,
    "STG_REGION_": _abi_region.MOVES,
}
CONSTANTS = {
    "STG_ROW_UNSTEERED": _abi_steering.ROW_UNSTEERED,
    "STG_ROW_PADDING": _abi_steering.ROW_PADDING,
    "STG_MAX_CALL_VECTORS": _abi_steering.MAX_CALL_VECTORS,
    "STG_MAX_CALL_PARAMS": _abi_steering.MAX_CALL_PARAMS,
    "STG_ERROR_MESSAGE_BYTES": _abi.ERROR_MESSAGE_BYTES,
}


def c_enum(prefix, word):
    if prefix.startswith("STG_DTYPE_NONE"):
        return "STG_DTYPE_NONE" if word == "none" else f"STG_{word.upper()}"
    return prefix + word.upper().replace("+", "_PLUS_")


def wanted():
    """What the package says, as the C program prints it."""
    facts = {}
    for struct in _abi.STRUCTS:
        facts[f"sizeof({struct.C_NAME})"] = _abi.ctypes.sizeof(struct)
        for field, *_ in struct._fields_:
            member = getattr(struct, field)
            facts[f"offsetof({struct.C_NAME}, {field})"] = member.offset
            facts[f"sizeof((({struct.C_NAME} *)0)->{field})"] = member.size
    for prefix, table in ENUMS.items():
        facts.update({c_enum(prefix, word): value for word, value in table.items()})
    facts.update(CONSTANTS)
    return facts


def compiled(expressions):
    lines = ["#include <steergraph/steergraph.h>", "#include <stddef.h>", "#include <stdio.h>"]
    lines += ["int main(void) {"]
    lines += [f'  printf("%lld\\n", (long long)({text}));' for text in expressions]
    lines += ["#define STATUS(name, value, text) printf(\"%s %d\\n\", #name, value);"]
    lines += ["  STG_STATUS_LIST(STATUS)", "  return 0;", "}", ""]
    with tempfile.TemporaryDirectory(prefix="steergraph-abi-") as folder:
        source = pathlib.Path(folder) / "facts.c"
        source.write_text("\n".join(lines))
        program = source.with_suffix("")
        words = [*COMPILER, "-std=c17", *("-I" + path for path in INCLUDES), source, "-o", program]
        subprocess.run(words, check=True)
        return subprocess.run([program], check=True, capture_output=True, text=True).stdout


def header_text():
    text = "\n".join(path.read_text() for path in sorted(HEADERS.glob("*.h")))
    return re.sub(r"/\*.*?\*/", " ", text, flags=re.DOTALL)


class Abi(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.facts = wanted()
        cls.printed = compiled(cls.facts).splitlines()

    def test_sizes_offsets_and_values_are_those_of_the_compiler(self):
        for (text, value), line in zip(self.facts.items(), self.printed):
            with self.subTest(text):
                self.assertEqual(int(line), value)

    def test_every_status_has_a_class_of_its_name(self):
        statuses = [line.split() for line in self.printed[len(self.facts) :]]
        self.assertGreater(len(statuses), 20)
        for name, value in statuses[1:]:
            words = "".join(word.capitalize() for word in name.removeprefix("E_").split("_"))
            with self.subTest(name):
                self.assertEqual(_errors.BY_STATUS[int(value)].__name__, words + "Error")
        self.assertEqual(len(_errors.BY_STATUS), len(statuses) - 1)

    def test_every_public_struct_is_bridged_with_all_its_members(self):
        text = header_text()
        bodies = dict(re.findall(r"typedef struct (stg_\w+) \{(.*?)\n\}", text, re.DOTALL))
        bridged = {struct.C_NAME: struct for struct in _abi.STRUCTS}
        self.assertEqual(set(bodies) - NOT_BRIDGED_STRUCTS, set(bridged))
        for name, struct in bridged.items():
            members = set()
            for statement in bodies[name].split(";"):
                members.update(re.findall(r"(\w+)(?:\[\w+\])?\s*(?:,|$)", statement))
            with self.subTest(name):
                self.assertEqual({field for field, *_ in struct._fields_}, members)

    def test_every_value_of_an_enum_has_a_word(self):
        text = header_text()
        for prefix, table in ENUMS.items():
            if not prefix.startswith("STG_DTYPE_NONE"):
                names = set(re.findall(rf"\b{prefix}[A-Z0-9_]+(?= = )", text))
                with self.subTest(prefix):
                    self.assertEqual({c_enum(prefix, word) for word in table}, names)

    def test_every_function_is_declared(self):
        names = set(re.findall(r"\bSTG_API\b[^;{]*?\b(stg_\w+)\s*\(", header_text()))
        names = {name for name in names if not NOT_BRIDGED_FUNCTIONS.fullmatch(name)}
        names.add("stg_version")  # in a template
        bridged = set(_abi._FALLIBLE) | set(_abi._PLAIN)
        self.assertEqual(names - set(_abi._OPTIONAL), bridged)

    def test_parameters_of_built_in_ops_are_those_of_their_definitions(self):
        import json

        definitions = {}
        for path in (ROOT / "specs" / "ops").glob("*.json"):
            read = json.loads(path.read_text())
            definitions[read["op"]] = tuple(read.get("params", ()))
        self.assertEqual(chains.BUILTIN_PARAMS, definitions)

    def test_version_of_the_package_is_that_of_the_project(self):
        project = (ROOT / "tools" / "python" / "pyproject.toml").read_text()
        (version,) = re.findall(r'^version = "(.*)"$', project, re.MULTILINE)
        self.assertEqual(version, support.steergraph.version())


tap.main()
