"""A case: one workload of the bench with its inputs and the result that steergraph gave.

A folder with three files, written by `steergraph bench --peers`:
    workload.json         a workload as specs/README.md has it, vectors and input from the next file
    tensors.safetensors   "hidden" [rows, hidden_size] and "vectors" [n, hidden_size], unit where the
                          workload says so, already rounded to the type of the bank
    expected.safetensors  "hidden" after the apply
With an epilogue the first file also has "residual" and "weight" [hidden_size], and the second the
"residual" after the apply; no request of such a case is steered. Needs no torch.
"""
import json
import pathlib

import tensor_file

# Ops that the peers know, with the parameters and their defaults.
OPS = {
    "add": {"scale": 1.0},
    "ablation": {"scale": 0.0},
    "projection_cap": {"min": float("-inf"), "max": float("inf")},
}


class CaseError(Exception):
    """One line: file, place, what is wrong."""


class Op:
    """One op call: `vector` is a row of the case's vectors."""

    def __init__(self, name: str, vector: int, params: dict):
        self.name, self.vector, self.params = name, vector, params

    def key(self) -> tuple:
        return (self.name, self.vector, tuple(sorted(self.params.items())))


class Request:
    """Rows [first, end) and the chain that acts on them; an empty chain leaves them alone."""

    def __init__(self, first: int, end: int, chain: list):
        self.first, self.end, self.chain = first, end, chain

    def key(self) -> tuple:
        return tuple(op.key() for op in self.chain)


class Case:
    def __init__(self, folder, suite: str = "", name: str = ""):
        self.folder = pathlib.Path(folder)
        self.suite, self.name = suite, name
        spec = read_json(self.folder / "workload.json")
        self.place = str(self.folder / "workload.json")
        try:
            self.read(spec)
        except (KeyError, TypeError, AttributeError) as error:
            raise CaseError(f"{self.place}: not a case of the bench ({error!r})") from None
        tensors = tensor_file.read(self.folder / "tensors.safetensors")
        expected = tensor_file.read(self.folder / "expected.safetensors")
        self.hidden = self.take(tensors, "hidden", [self.rows, self.hidden_size], self.dtype)
        self.vectors = self.take(tensors, "vectors", [self.n_vectors, self.hidden_size], "F32")
        self.expected = self.take(expected, "hidden", [self.rows, self.hidden_size], self.dtype)
        if self.has_norm:
            self.residual = self.take(tensors, "residual", [self.rows, self.hidden_size], self.dtype)
            self.weight = self.take(tensors, "weight", [self.hidden_size], self.dtype)
            self.expected_residual = self.take(
                expected, "residual", [self.rows, self.hidden_size], self.dtype)

    def take(self, tensors: dict, name: str, shape: list, dtype: str):
        tensor = tensors.get(name)
        if tensor is None or tensor.shape != shape or tensor.dtype != dtype:
            found = "nothing" if tensor is None else f"{tensor.dtype} {tensor.shape}"
            raise CaseError(f"{self.folder}: tensor '{name}': expected {dtype} {shape}, found {found}")
        return tensor

    def read(self, spec: dict) -> None:
        geometry = spec["geometry"]
        self.has_norm = "epilogue" in spec
        if geometry.get("state", "hidden") != "hidden" and not self.has_norm:
            raise CaseError(f"{self.place}: geometry.state: peers steer hidden alone")
        self.epsilon = float(spec["epilogue"]["eps"]) if self.has_norm else None
        self.dtype = geometry["dtype"].upper()
        self.hidden_size = geometry["hidden_size"]
        self.n_vectors = 1 + max((vector["row"] for vector in spec["vectors"].values()), default=-1)
        layer = str(spec["batch"].get("layer", 0))
        chains = {None: []}
        for name, slot in spec["slots"].items():
            where = f"{self.place}: slots.{name}.layers.{layer}"
            calls = slot["layers"].get(layer, [])
            chains[name] = [self.read_op(f"{where}[{i}]", call, spec) for i, call in enumerate(calls)]
        self.requests, row = [], 0
        for request in spec["batch"]["requests"]:
            for _ in range(request.get("repeat", 1)):
                self.requests.append(Request(row, row + request["rows"], chains[request["slot"]]))
                row += request["rows"]
        self.rows = row
        if self.has_norm and self.longest_chain() > 0:
            raise CaseError(f"{self.place}: batch.requests: peers steer nothing ahead of an epilogue")

    def read_op(self, where: str, call: dict, spec: dict) -> Op:
        name = call["op"]
        if name not in OPS:
            raise CaseError(f"{where}.op: peers know {', '.join(OPS)}, not '{name}'")
        unknown = set(call) - {"op", "v"} - set(OPS[name])
        if unknown:
            raise CaseError(f"{where}: unknown member '{sorted(unknown)[0]}'")
        params = {key: float(call.get(key, default)) for key, default in OPS[name].items()}
        return Op(name, spec["vectors"][call["v"]]["row"], params)

    def longest_chain(self) -> int:
        return max((len(request.chain) for request in self.requests), default=0)

    def is_uniform(self) -> bool:
        """One chain for every request."""
        return len({request.key() for request in self.requests}) == 1


def read_json(path: pathlib.Path):
    try:
        return json.loads(path.read_text())
    except OSError as error:
        raise CaseError(f"{path}: {error.strerror}") from None
    except ValueError as error:
        raise CaseError(f"{path}: {error}") from None
