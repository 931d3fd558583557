"""Steered RMSNorm modules against the norm of transformers and float64."""
import unittest

import torch_support as support  # first: it finds torch, and the folders of the others

import reference
import tap
import torch
from steergraph.norm import SteeredRMSNorm
from torch_support import DEVICE, DTYPES, chain, refusal, rows_of, steergraph, unit_vectors

try:
    from transformers.models.llama.modeling_llama import LlamaRMSNorm
except ImportError:
    support.skip("transformers is not installed")

HIDDEN, EPSILON = 256, 1e-5


class Norms(unittest.TestCase):
    def setUp(self):
        self.engine = support.engine()
        self.addCleanup(self.engine.close)

    def made(self, dtype, **declared):
        declared = {"epilogue": "add_rmsnorm", "epsilon": EPSILON, **declared}
        table = steergraph.Steering(
            self.engine, HIDDEN, layers=2, dtype=dtype, state="hidden+residual", **declared
        )
        v, w = unit_vectors(2, HIDDEN, dtype)
        given, self.wanted = chain(("add", [v], {"scale": 8.0}), ("ablation", [w], {"scale": 0.0}))
        table.set(0, {1: given})
        frame = table.frame()
        frame.step([0, -1, 0, -1])
        norm = LlamaRMSNorm(HIDDEN, eps=EPSILON).to(DEVICE, dtype)
        with torch.no_grad():
            norm.weight.copy_(1 + rows_of(HIDDEN, dtype=torch.float32, seed=4) / 4)
        return frame, norm

    def steered(self, total):
        """What residual becomes, in float64."""
        out = total.double().clone()
        out[::2] = reference.run(out[::2], self.wanted)[0]
        return out

    def close(self, found, wanted, dtype, roundings):
        unit = support.UNIT_ROUNDOFF[dtype]
        off = (found.double() - wanted.double()).abs()
        bound = roundings * unit * wanted.double().abs() + 2.0**-20 * wanted.double().abs().max()
        self.assertTrue((off <= bound).all(), (off / bound).max())

    def check(self, dtype, norm, own, total, normed, residual):
        wanted = self.steered(total)
        self.close(residual, wanted, dtype, 1)
        weight = norm.weight.detach().double()
        self.close(normed, reference.rms_norm(wanted, weight, EPSILON), dtype, 1)
        # the model's own norm rounds the normed row once more, and takes the rounded residual
        self.close(normed, norm(residual).detach(), dtype, 4)
        self.assertIs(own.weight, norm.weight)

    def test_in_the_place_of_a_norm_of_a_model(self):
        for dtype in DTYPES:
            with self.subTest(dtype), torch.no_grad():
                frame, norm = self.made(dtype)
                own = SteeredRMSNorm.from_module(norm, frame, 1)
                hidden = rows_of(2, 2, HIDDEN, dtype=dtype)
                total = hidden.reshape(4, HIDDEN).clone()
                normed = own(hidden)
                flat = (normed.reshape(4, HIDDEN), hidden.reshape(4, HIDDEN))
                self.check(dtype, norm, own, total, *flat)

    def test_with_a_residual_as_serving_engines_call_it(self):
        for dtype in DTYPES:
            with self.subTest(dtype), torch.no_grad():
                frame, norm = self.made(dtype)
                own = SteeredRMSNorm.from_module(norm, frame, 1)
                hidden, residual = (rows_of(4, HIDDEN, dtype=dtype, seed=s) for s in (1, 2))
                total = hidden.double() + residual.double()
                normed, summed = own(hidden, residual)
                self.assertIs(normed, hidden)
                self.assertIs(summed, residual)
                self.check(dtype, norm, own, total, normed, summed)

    def test_a_compiled_model_keeps_one_graph(self):
        frame, norm = self.made(torch.float32)
        own = SteeredRMSNorm.from_module(norm, frame, 1)
        torch._dynamo.reset()

        def model(hidden, residual):
            hidden = hidden * 2
            normed, summed = own(hidden, residual)
            return normed + 1, summed

        hidden, residual = (rows_of(4, HIDDEN, dtype=torch.float32, seed=s) for s in (1, 2))
        total = 2 * hidden.double() + residual.double()
        with torch.no_grad():
            normed, summed = torch.compile(model, fullgraph=True)(hidden, residual)
            self.check(torch.float32, norm, own, total, normed - 1, summed)

    def test_refuses_a_norm_that_is_not_the_tables(self):
        frame, norm = self.made(torch.float32)
        kind, text = refusal(SteeredRMSNorm.from_module, LlamaRMSNorm(HIDDEN, eps=1e-6), frame, 0)
        self.assertIs(kind, steergraph.InvalidError)
        self.assertEqual(text, "the norm's epsilon is 1e-06, the table's is 1e-05")
        kind, text = refusal(SteeredRMSNorm.from_module, LlamaRMSNorm(8, eps=EPSILON), frame, 0)
        self.assertIn("hidden_size is 256", text)
        other, _ = self.made(torch.float32, epilogue=None, epsilon=0)
        kind, text = refusal(SteeredRMSNorm.from_module, norm, other, 0)
        self.assertEqual(text, "a norm needs a table with epilogue 'add_rmsnorm'")


tap.main()
