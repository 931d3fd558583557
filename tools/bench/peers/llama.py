"""Decode steps of a Llama with random weights: steered by steergraph's package, and by a loop in PyTorch.

    python3 llama.py --json OUT [--library libsteergraph.so] [--quick]

Needs torch, transformers and a CUDA device. Unlike the peers beside it, it takes no case and measures
both sides: rows of the suite `llama`, which `table.py record NAME --add OUT` keeps with a run.

The model has 16 layers of 2048 elements in bf16; a batch of 8 requests decodes one token each, with
one op per request at each of 0, 1, 8 or all layers. steergraph is hooked behind every layer and steps
its frame before each forward. The reference is hooked behind the steered layers alone: its 0 layers are
the model by itself. Eager, and in a CUDA graph. The two must give the same logits, as far as two
roundings of bf16 allow, before they are timed.
"""
import argparse
import os
import pathlib
import sys
import types

import peer
import rows

LAYERS, HIDDEN, HEADS, BATCH, ROOM, VOCABULARY = 16, 2048, 16, 8, 256, 8000
STEERED = (0, 1, 8, LAYERS)
OURS, REFERENCE = "steergraph", "torch reference loop"
# Of the logits' difference, over what steering does to them (over the logits, where nothing is steered).
ALLOWED = 0.25
PACKAGE = pathlib.Path(__file__).resolve().parents[2] / "python"


class Llama:
    """A model, a cache of keys and values at fixed addresses, and the inputs of one decode step."""

    def __init__(self, torch, transformers):
        torch.manual_seed(0)
        config = transformers.LlamaConfig(
            vocab_size=VOCABULARY, hidden_size=HIDDEN, intermediate_size=11 * HIDDEN // 4,
            num_hidden_layers=LAYERS, num_attention_heads=HEADS, num_key_value_heads=HEADS,
            max_position_embeddings=2 * ROOM, attn_implementation="eager")  # fmt: skip
        self.torch = torch
        self.model = transformers.LlamaForCausalLM(config).to("cuda", torch.bfloat16).eval()
        shape = (LAYERS, BATCH, HEADS, ROOM, HIDDEN // HEADS)
        self.keys = 0.1 * torch.randn(shape, dtype=torch.bfloat16, device="cuda")
        self.values = 0.1 * torch.randn(shape, dtype=torch.bfloat16, device="cuda")
        self.tokens = torch.arange(BATCH, device="cuda")[:, None].clone()
        self.positions = torch.full((1,), ROOM // 2, dtype=torch.int64, device="cuda")
        self.mask = torch.zeros(BATCH, 1, 1, ROOM, dtype=torch.bfloat16, device="cuda")
        self.mask[..., ROOM // 2 + 1 :] = -1e9

    # what transformers asks of a cache

    def update(self, keys, values, layer, *_, **__):
        self.keys[layer].index_copy_(2, self.positions, keys)
        self.values[layer].index_copy_(2, self.positions, values)
        return self.keys[layer], self.values[layer]

    def get_seq_length(self, *_, **__):
        return 0

    def logits(self):
        output = self.model(
            input_ids=self.tokens, attention_mask=self.mask, past_key_values=self, use_cache=True,
            position_ids=self.positions[None].expand(BATCH, -1))  # fmt: skip
        return output.logits[:, -1]

    def step(self):
        """One token for each request, which the next step takes."""
        self.tokens.copy_(self.logits().argmax(-1, keepdim=True))

    def first_logits(self):
        """Of the tokens that all begin with."""
        self.tokens.copy_(self.torch.arange(BATCH, device="cuda")[:, None])
        return self.logits().double()

    def graph(self):
        """`step` in a CUDA graph."""
        torch = self.torch
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(2):
                self.step()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.step()
        return graph


def vectors_of(torch):
    """A unit vector for each layer and request, bf16 on the host."""
    values = torch.randn(LAYERS, BATCH, HIDDEN, generator=torch.Generator().manual_seed(1))
    return (values / values.norm(dim=-1, keepdim=True)).to(torch.bfloat16)


class Ours:
    """Hooks of the package behind every layer; chains at the first `steered`."""

    def __init__(self, llama, vectors, steered, steergraph, attach):
        self.engine = steergraph.Engine("cuda", 0)
        table = steergraph.Steering(self.engine, HIDDEN, layers=LAYERS, dtype=llama.torch.bfloat16)
        kinds = (("add", {"scale": 4.0}), ("projection_cap", {"min": -0.5, "max": 0.5}),
                 ("ablation", {"scale": 0.0}))  # fmt: skip
        for request in range(BATCH if steered else 0):
            name, params = kinds[request % 3]
            chains = {layer: [steergraph.op(name, vectors[layer, request], **params)] for layer in range(steered)}
            table.set(request, chains)
        self.frame = table.frame()
        self.hooks = attach(llama.model, self.frame)
        self.row_map = list(range(BATCH))

    def before(self):
        self.frame.step(self.row_map)

    def close(self):
        self.hooks.detach()
        self.frame.close()
        self.engine.close()


class Reference:
    """Hooks behind the steered layers, which go through the requests one by one."""

    def __init__(self, llama, vectors, steered, loop_on):
        self.hooks = []
        for layer in range(steered):
            chains = [(r, r + 1, [self.op(vectors[layer, r].cuda(), r % 3)]) for r in range(BATCH)]
            self.hooks.append(llama.model.model.layers[layer].register_forward_hook(self.hook(chains, loop_on)))

    @staticmethod
    def op(v, kind):
        """As torch_side.op_on takes it; a scaled vector is made once."""
        return (("add", (4 * v.double()).to(v.dtype), 0.0, 0.0), ("projection_cap", v, -0.5, 0.5),
                ("project_out", v, 0.0, 0.0))[kind]  # fmt: skip

    @staticmethod
    def hook(chains, loop_on):
        def steer(_, __, output):
            hidden = output[0] if isinstance(output, tuple) else output
            loop_on(hidden.view(-1, HIDDEN), chains)  # in place
            return output

        return steer

    def before(self):
        pass

    def close(self):
        for hook in self.hooks:
            hook.remove()


def off(found, wanted, plain) -> float:
    """How far apart, over what steering does, or over all where that is nothing."""
    moved = (wanted - plain).norm().item() or plain.norm().item()
    return (found - wanted).norm().item() / moved


def measure(torch_side, llama, side, name, series, repeats, extras) -> list:
    """Rows of a side that is hooked: eager, and in a graph."""
    found = []
    for mode in ("eager", "in a CUDA graph"):
        side.before()
        graph = llama.graph() if mode != "eager" else None
        forward = llama.step if graph is None else graph.replay

        def call(_, forward=forward):
            side.before()
            forward()

        device, wall = torch_side.measure(call, 1, repeats)
        case = types.SimpleNamespace(suite="llama", name=f"{name}, {mode}")
        more = {**extras, "tokens_per_s": BATCH / (wall.median * 1e-6)}
        found.append(rows.make(case, series, torch_side.machine(), device, wall, more))
        del graph, forward, call  # before the frame that it names
    return found


def run(args: argparse.Namespace) -> None:
    import torch
    import torch_side
    import transformers

    if not torch.cuda.is_available():
        raise RuntimeError("torch finds no CUDA device")
    sys.path.insert(0, str(PACKAGE))
    import steergraph
    from steergraph.attach import attach

    steergraph.load(args.library)
    repeats = 5 if args.quick else torch_side.REPEATS
    found = []
    with torch.inference_mode():
        llama, vectors = Llama(torch, transformers), vectors_of(torch)
        plain = llama.first_logits()
        for steered in STEERED:
            name = f"{steered} of {LAYERS} layers steered"
            extras = {"steered_layers": steered, "batch": BATCH}
            reference = Reference(llama, vectors, steered, torch_side.loop_on)
            try:
                wanted = llama.first_logits()
                found += measure(torch_side, llama, reference, name, REFERENCE, repeats, extras)
            finally:
                reference.close()
            ours = Ours(llama, vectors, steered, steergraph, attach)
            try:
                ours.before()
                extras["off"] = off(llama.first_logits(), wanted, plain)
                if not extras["off"] <= ALLOWED:
                    raise RuntimeError(f"{name}: the logits disagree: {extras['off']:.3g} of what steering does")
                found += measure(torch_side, llama, ours, name, OURS, repeats, extras)
            finally:
                ours.close()
    rows.write(args.json, found)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", required=True, metavar="OUT", help="the file of the rows")
    parser.add_argument("--library", help="libsteergraph.so; default: where the package looks")
    parser.add_argument("--quick", action="store_true", help="few repeats")
    args = parser.parse_args()
    try:
        run(args)
    except ImportError as error:
        raise SystemExit(f"cannot import {error.name or 'a module'}: {peer.one_line(error)}") from None
    except Exception as error:  # one line, as of every peer
        if os.environ.get("PEER_TRACEBACK"):
            raise
        raise SystemExit(f"{type(error).__name__}: {peer.one_line(error)}") from None


if __name__ == "__main__":
    main()
