"""The loop over every length on the device: what it must give, in float64, and the judgement."""
import math

import attn_agreement
import attn_case
import attn_side
from torch_side import Disagreement

import torch


class Side(attn_side.Side):
    """A peer leaves `out` [capacity, batch, heads, dim], and `lengths`: how many steps it made."""

    def steps(self, after) -> list:
        """Those that are looked at and were made."""
        stride = attn_case.AttnCase.stride()
        return list(range(stride - 1, min(after.lengths, self.case.capacity), stride))

    def check(self, series: str, after) -> None:
        verdict = attn_agreement.HeadVerdict(self.case.dtype)
        for i, step in enumerate(self.steps(after)):
            ours = self.expected["out"][i]
            distances = (after.out[step].double() - ours).norm(dim=-1)
            for sequence, lengths in enumerate(ours.norm(dim=-1).tolist()):
                place = f"sequence {sequence} at length {step + 1}"
                verdict.add(place, step, distances[sequence].tolist(), lengths)
        if not verdict.agrees():
            raise Disagreement(f"{series}: case '{self.case.name}': disagrees with steergraph: {verdict}")

    def exact(self) -> list:
        """The results in float64 of the steps that are looked at, made once."""
        if not hasattr(self, "exact_steps"):
            case = self.case
            packed = self.pristine["packed"].double()
            sizes = [heads * case.dim for heads in (case.heads, case.kv_heads, case.kv_heads)]
            rows = (case.capacity, case.batch, -1, case.dim)
            q, k, v = (part.reshape(rows).permute(1, 2, 0, 3) for part in packed.split(sizes, -1))
            half = torch.arange(0, case.dim, 2, device=packed.device).double() / case.dim
            places = torch.arange(case.capacity, device=packed.device).double()
            angles = torch.outer(places, attn_side.BASE**-half).repeat(1, 2)
            q, k = (attn_side.rotate(x, angles.cos(), angles.sin()) for x in (q, k))
            group = case.heads // case.kv_heads
            k, v = (x.repeat_interleave(group, 1) for x in (k, v))
            self.exact_steps = {}
            for step in range(attn_case.AttnCase.stride() - 1, case.capacity, attn_case.AttnCase.stride()):
                scores = q[:, :, step : step + 1] @ k[:, :, : step + 1].transpose(2, 3) / math.sqrt(case.dim)
                self.exact_steps[step] = (scores.softmax(-1) @ v[:, :, : step + 1]).squeeze(2)
        return self.exact_steps

    def mae(self, after) -> float:
        exact = self.exact()
        far = [(after.out[step].double() - exact[step]).abs().mean().item() for step in self.steps(after)]
        return sum(far) / len(far) if far else math.inf
