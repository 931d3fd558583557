"""A case of the suite prove: a pool of candidates of a knowledge base, and what steergraph made of them.

A folder of a base with these files, written by `steergraph bench --peers`, and shared by its cases:
    case.json             limits, sizes of the policy, and of each case by its name the candidates
    facts.txt, rules.txt  the base (specs/README.md), of plain names
    candidates.txt        queries and corruptions, as facts
    weights.safetensors   the policy, by the names of specs/prove_policy.h
    expected.safetensors  "logp", "depth", "outcome" and "close" [candidates]
Predicates and constants are numbered from 1 in the order of their first occurrence, facts before rules; a
rule's variables are below 0. Needs no torch.
"""
import pathlib
import re

import tensor_file
from case import CaseError, read_json

COUNTS = ("atoms", "children", "depth", "embed", "hidden", "blocks", "batch")
RESULTS = ("logp", "depth", "outcome", "close")
PROVED, FAILED, GAVE_UP, OUT_OF_STEPS = 1, 2, 3, 4  # outcomes
TRUE, FALSE, ENDF = 1, 2, 3  # predicates behind those of the base
NAME = r"([\w-]+)"
ATOM = re.compile(rf"\s*{NAME}\s*\(\s*{NAME}\s*,\s*{NAME}\s*\)\s*")
RULE = re.compile(r"[^:]*:[^:]*:(.*)->(.*)", re.DOTALL)


class Names:
    """Numbers from 1 in the order of first occurrence."""

    def __init__(self):
        self.numbers = {}

    def __len__(self) -> int:
        return len(self.numbers)

    def add(self, name: str) -> int:
        return self.numbers.setdefault(name, len(self.numbers) + 1)

    def get(self, name: str, place: str) -> int:
        if name not in self.numbers:
            raise CaseError(f"{place}: '{name}' is not in the base")
        return self.numbers[name]


class KnowledgeBase:
    """facts: (predicate, a, b). rules: (head, body), of such atoms."""

    def __init__(self, folder: pathlib.Path):
        self.predicates, self.constants = Names(), Names()
        self.facts, self.rules = [], []
        for place, line in lines_of(folder / "facts.txt"):
            self.facts.append(self.ground(place, line, Names.add))
        for place, line in lines_of(folder / "rules.txt"):
            self.rules.append(self.rule(place, line))

    def ground(self, place: str, line: str, number) -> tuple:
        found = ATOM.fullmatch(line.removesuffix("."))
        if found is None or not line.endswith("."):
            raise CaseError(f"{place}: expected 'predicate(a,b).', found '{line}'")
        pred, *args = found.groups()
        names = (self.predicates, pred), (self.constants, args[0]), (self.constants, args[1])
        return tuple(number(table, name) for table, name in names)

    def rule(self, place: str, line: str) -> tuple:
        parts = RULE.fullmatch(line)
        body = [*ATOM.finditer(parts.group(1))] if parts else []
        head = ATOM.fullmatch(parts.group(2)) if parts else None
        if head is None or ",".join(atom.group() for atom in body) != parts.group(1):
            raise CaseError(f"{place}: expected 'name:confidence:body -> head', found '{line}'")
        variables = Names()
        body, head = ([(self.predicates.add(atom.group(1)), -variables.add(atom.group(2)), -variables.add(atom.group(3)))
                       for atom in atoms] for atoms in (body, [head]))  # fmt: skip
        return head[0], body


def lines_of(path: pathlib.Path):
    """(place, line) without comments and blanks."""
    try:
        text = path.read_text()
    except OSError as error:
        raise CaseError(f"{path}: {error.strerror}") from None
    for number, line in enumerate(text.splitlines(), start=1):
        line = re.split("[%#]", line)[0].strip()
        if line:
            yield f"{path}:{number}", line


class ProveCase:
    def __init__(self, folder, suite: str = "", name: str = ""):
        self.folder = pathlib.Path(folder)
        self.suite, self.name = suite, name
        self.place = str(self.folder / "case.json")
        numbers = read_json(self.folder / "case.json")
        try:
            self.read(numbers)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise CaseError(f"{self.place}: not a case of the bench ({error!r})") from None
        self.base = KnowledgeBase(self.folder)
        everything = [self.base.ground(place, line, lambda table, name, place=place: table.get(name, place))
                      for place, line in lines_of(self.folder / "candidates.txt")]  # fmt: skip
        if self.places[-1] >= len(everything):
            raise CaseError(f"{self.place}: '{name}' has more candidates than the {len(everything)} of candidates.txt")
        self.candidates = [everything[i] for i in self.places]
        found = tensor_file.read(self.folder / "expected.safetensors")
        self.expected = {}
        for part in RESULTS:
            values = self.take(found, part, [len(everything)]).floats()
            self.expected[part] = [values[i] for i in self.places]

    def read(self, numbers: dict) -> None:
        for count in COUNTS:
            setattr(self, count, int(numbers[count]))
        self.epsilon = float(numbers["epsilon"])
        own = numbers["cases"][self.name]
        self.repeats, count, first = bool(own["repeat"]), int(own["count"]), int(own["first"])
        if count < 1 or first < 0 or min(getattr(self, name) for name in COUNTS) < 1:
            raise ValueError("a number that is too small")
        self.places = [first if self.repeats else first + i for i in range(count)]

    def shapes(self) -> dict:
        """Of the policy's tensors."""
        embed, hidden = self.embed, self.hidden
        norm = {"weight": [hidden], "bias": [hidden]}
        found = {
            "predicate.weight": [len(self.base.predicates) + 3, embed],
            "entity.weight": [len(self.base.constants) + 2 * self.atoms, embed],
            "in.weight": [hidden, embed], "in.bias": [hidden],
            "head.weight": [hidden, hidden], "head.bias": [hidden],
            "out.weight": [embed, hidden], "out.bias": [embed],
        }  # fmt: skip
        found |= {f"in_norm.{part}": shape for part, shape in norm.items()}
        for block in range(self.blocks):
            found |= {f"blocks.{block}.weight": [hidden, hidden], f"blocks.{block}.bias": [hidden]}
            found |= {f"blocks.{block}.norm.{part}": shape for part, shape in norm.items()}
        return found

    def weights(self) -> dict:
        """The policy's tensors, by name."""
        found = tensor_file.read(self.folder / "weights.safetensors")
        return {name: self.take(found, name, shape) for name, shape in self.shapes().items()}

    def take(self, tensors: dict, name: str, shape: list):
        tensor = tensors.get(name)
        if tensor is None or tensor.shape != shape or tensor.dtype != "F32":
            found = "nothing" if tensor is None else f"{tensor.dtype} {tensor.shape}"
            raise CaseError(f"{self.folder}: tensor '{name}': expected F32 {shape}, found {found}")
        return tensor

    @staticmethod
    def side(_) -> str:
        return "prove_side"
