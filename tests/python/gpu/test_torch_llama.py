"""A Llama of transformers with random weights, requests with chains of their own, eager and in a
CUDA graph, against the same model in float64 steered by reference.py."""
import copy
import unittest

import torch_support as support  # first: it finds torch, and the folders of the others

import reference
import tap
import torch
from steergraph.attach import attach
from steergraph.norm import SteeredRMSNorm
from torch_support import DEVICE, ON_CPU, chain, steergraph, unit_vectors

try:
    from transformers import LlamaConfig, LlamaForCausalLM
except ImportError:
    support.skip("transformers is not installed")

LAYERS, HIDDEN, HEADS, BATCH, PROMPT, ROOM, VOCABULARY = 4, 512, 8, 4, 7, 32, 1000


class KeyValues:
    """Keys and values at fixed addresses, written where `positions` says: all that a captured
    forward needs of a cache."""

    def __init__(self, dtype):
        shape = (LAYERS, BATCH, HEADS, ROOM, HIDDEN // HEADS)
        self.keys = torch.zeros(shape, dtype=dtype, device=DEVICE)
        self.values = torch.zeros(shape, dtype=dtype, device=DEVICE)
        self.positions = None

    def update(self, keys, values, layer, *_, **__):
        self.keys[layer].index_copy_(2, self.positions, keys)
        self.values[layer].index_copy_(2, self.positions, values)
        return self.keys[layer], self.values[layer]

    def get_seq_length(self, *_, **__):
        return 0


class Run:
    """One model, its cache, and what a forward reads: tokens, positions and mask."""

    def __init__(self, model, dtype):
        self.model, self.dtype, self.cache = model, dtype, KeyValues(dtype)

    def buffers(self, count):
        """Inputs of a forward over `count` tokens per request, at fixed addresses."""
        tokens = torch.zeros(BATCH, count, dtype=torch.int64, device=DEVICE)
        positions = torch.zeros(count, dtype=torch.int64, device=DEVICE)
        mask = torch.zeros(BATCH, 1, count, ROOM, dtype=self.dtype, device=DEVICE)
        return tokens, positions, mask

    def fill(self, buffers, tokens, start):
        own, positions, mask = buffers
        own.copy_(tokens)
        positions.copy_(torch.arange(start, start + own.shape[1], device=DEVICE))
        seen = torch.arange(ROOM, device=DEVICE)[None] <= positions[:, None]
        mask.copy_(torch.where(seen, 0.0, -1e9))

    def forward(self, buffers):
        tokens, positions, mask = buffers
        self.cache.positions = positions
        return self.model(
            input_ids=tokens,
            attention_mask=mask,
            position_ids=positions[None].expand(BATCH, -1),
            past_key_values=self.cache,
            use_cache=True,
        ).logits[:, -1]

    def step(self, tokens, start):
        buffers = self.buffers(tokens.shape[1])
        self.fill(buffers, tokens, start)
        return self.forward(buffers)


def made(dtype, seed=0):
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=HIDDEN,
        intermediate_size=2 * HIDDEN,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=HEADS,
        max_position_embeddings=128,
        attn_implementation="eager",
    )
    return LlamaForCausalLM(config).to(DEVICE, dtype).eval()


class Reference(Run):
    """The model in float64, whose layers are steered request by request."""

    def __init__(self, model):
        super().__init__(copy.deepcopy(model).double(), torch.float64)
        self.chains = {}  # request: {layer: ops}
        for layer, module in enumerate(self.model.model.layers):
            module.register_forward_hook(
                lambda _, __, output, layer=layer: self.steer(layer, output)
            )

    def steer(self, layer, output):
        hidden = (output[0] if isinstance(output, tuple) else output).clone()
        for request, by_layer in self.chains.items():
            if layer in by_layer:
                hidden[request] = reference.run(hidden[request], by_layer[layer])[0]
        return (hidden, *output[1:]) if isinstance(output, tuple) else hidden


class Llama(unittest.TestCase):
    def setUp(self):
        self.engine = support.engine()
        self.addCleanup(self.engine.close)
        guard = torch.inference_mode()
        guard.__enter__()
        self.addCleanup(guard.__exit__, None, None, None)

    def chains(self, dtype):
        """{request: {layer: (for slots, for the reference)}}; request 1 is not steered."""
        v = unit_vectors(6, HIDDEN, dtype)
        return {
            0: {1: chain(("add", [v[0]], {"scale": 4.0}))},
            2: {
                0: chain(
                    ("projection_cap", [v[1]], {"max": -1.0}), ("add", [v[2]], {"scale": 2.0})
                ),
                2: chain(("ablation", [v[3]], {"scale": -1.0})),
            },
            3: {3: chain(("add_keep_norm", [v[4]], {"scale": 6.0}), ("swap", [v[4], v[5]], {}))},
        }

    def table(self, dtype, **declared):
        return steergraph.Steering(self.engine, HIDDEN, layers=LAYERS, dtype=dtype, **declared)

    def put(self, table, exact, request, by_layer):
        """A request's chains into the slot of its number, and into the reference."""
        table.set(request, {layer: given for layer, (given, _) in by_layer.items()})
        exact.chains[request] = {layer: wanted for layer, (_, wanted) in by_layer.items()}

    def agrees(self, found, wanted, what):
        off = ((found.double() - wanted).norm(dim=-1) / wanted.norm(dim=-1)).tolist()
        self.assertLess(max(off), 1e-4, f"{what}: {off}")

    def rows(self, count):
        return [request for request in range(BATCH) for _ in range(count)]

    def decode(self, captured):
        """Prefill and decode in float32 against float64, with changes between the steps."""
        model = made(torch.float32)
        exact, own, plain = Reference(model), Run(model, torch.float32), Reference(model)
        table = self.table(torch.float32)
        frame = table.frame()
        for request, by_layer in self.chains(torch.float32).items():
            self.put(table, exact, request, by_layer)
        tokens = torch.randint(0, VOCABULARY, (BATCH, PROMPT), device=DEVICE)
        with attach(model, frame):
            frame.step(self.rows(PROMPT))
            found, wanted = own.step(tokens, 0), exact.step(tokens, 0)
            unsteered = plain.step(tokens, 0)
            self.agrees(found, wanted, "prefill")
            far = (found.double() - unsteered).norm(dim=-1) / unsteered.norm(dim=-1)
            self.assertTrue((far[[0, 2, 3]] > 1e-2).all() and far[1] < 1e-4, far)
            frame.step(self.rows(1))
            forward, buffers = self.decoder(own, captured)
            for turn in range(8):
                tokens = found.argmax(-1, keepdim=True)
                if turn == 2:  # another chain for a request, one more request steered
                    (v,) = unit_vectors(1, HIDDEN, torch.float32, seed=8)
                    more = {layer: chain(("add", [v], {"scale": 3.0})) for layer in (0, 3)}
                    self.put(table, exact, 0, more)
                    self.put(table, exact, 1, more)
                if turn == 5:
                    table.clear(2)
                    exact.chains.pop(2)
                frame.step(self.rows(1))
                own.fill(buffers, tokens, PROMPT + turn)
                found, wanted = forward(), exact.step(tokens, PROMPT + turn)
                self.agrees(found, wanted, f"step {turn}")

    def decoder(self, own, captured):
        """(a function that decodes one token per request, its inputs)."""
        buffers = own.buffers(1)
        own.fill(buffers, torch.zeros(BATCH, 1, dtype=torch.int64, device=DEVICE), ROOM - 1)
        if not captured:
            return lambda: own.forward(buffers), buffers
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):  # writes keys where no position is seen yet
            for _ in range(2):
                own.forward(buffers)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            logits = own.forward(buffers)

        def replay():
            graph.replay()
            return logits.clone()

        return replay, buffers

    def test_eager_decode(self):
        self.decode(captured=False)

    @unittest.skipIf(ON_CPU, "needs torch.cuda.graph")
    def test_decode_in_a_cuda_graph(self):
        self.decode(captured=True)

    def test_every_row_of_every_layer_in_bf16(self):
        """Each layer's output before and behind its hook, held against the chain's bound."""
        model = made(torch.bfloat16)
        own = Run(model, torch.bfloat16)
        table = self.table(torch.bfloat16)
        frame = table.frame()
        chains = self.chains(torch.bfloat16)
        for request, by_layer in chains.items():
            table.set(request, {layer: given for layer, (given, _) in by_layer.items()})
        before, after = {}, {}

        def keep(into):
            for layer, module in enumerate(model.model.layers):
                module.register_forward_hook(
                    lambda _, __, output, layer=layer: into.__setitem__(
                        layer, (output[0] if isinstance(output, tuple) else output).clone()
                    )
                )

        keep(before)
        attach(model, frame)
        keep(after)
        frame.step(self.rows(PROMPT))
        own.step(torch.randint(0, VOCABULARY, (BATCH, PROMPT), device=DEVICE), 0)
        self.assertEqual(len(after), LAYERS)
        for layer in range(LAYERS):
            for request in range(BATCH):
                was, found = before[layer][request], after[layer][request]
                _, ops = chains.get(request, {}).get(layer, (None, None))
                if ops is None:
                    self.assertTrue(torch.equal(found, was))
                else:
                    self.assertLessEqual(support.worst(was, found, ops), 1, (layer, request))

    def test_a_compiled_model_decodes_the_same(self):
        model = made(torch.float32)
        exact, own = Reference(model), Run(model, torch.float32)
        table = self.table(torch.float32)
        frame = table.frame()
        for request, by_layer in self.chains(torch.float32).items():
            self.put(table, exact, request, by_layer)
        torch._dynamo.reset()
        tokens = torch.randint(0, VOCABULARY, (BATCH, PROMPT), device=DEVICE)
        with attach(model, frame):
            own.model = torch.compile(model, fullgraph=True, backend="aot_eager")
            frame.step(self.rows(PROMPT))
            self.agrees(own.step(tokens, 0), exact.step(tokens, 0), "prefill")

    def test_norms_swapped_for_steered_ones(self):
        """Steering at the input of a layer, in its norm, is steering at the output of the one
        before."""
        model = made(torch.float32)
        exact = Reference(model)
        epsilon = model.config.rms_norm_eps
        table = self.table(
            torch.float32, state="hidden+residual", epilogue="add_rmsnorm", epsilon=epsilon
        )
        frame = table.frame()
        for request, by_layer in self.chains(torch.float32).items():
            by_layer = {layer: item for layer, item in by_layer.items() if layer + 1 < LAYERS}
            self.put(table, exact, request, by_layer)
        for layer, module in enumerate(model.model.layers[1:]):
            module.input_layernorm = SteeredRMSNorm.from_module(
                module.input_layernorm, frame, layer
            )
        own = Run(model, torch.float32)
        tokens = torch.randint(0, VOCABULARY, (BATCH, PROMPT), device=DEVICE)
        frame.step(self.rows(PROMPT))
        self.agrees(own.step(tokens, 0), exact.step(tokens, 0), "prefill")


tap.main()
