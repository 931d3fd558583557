"""RMSNorm modules that steer in the same launch: the epilogue add_rmsnorm in a torch model.

For tables with epilogue="add_rmsnorm" and state="hidden+residual". Steering happens ahead of the
norm, on the sum: at the input of the block that the norm belongs to.
"""
import ctypes

import torch

from . import _errors
from .torch_op import add_rmsnorm_, cells_of, check_probes


def _check_table(frame):
    if frame.steering.epilogue != "add_rmsnorm":
        raise _errors.InvalidError("a norm needs a table with epilogue 'add_rmsnorm'")


class SteeredRMSNorm(torch.nn.Module):
    """In the place of a model's own norm module.

    norm(hidden, residual) -> (normed, residual), both in place, as serving engines call it.
    norm(hidden) -> normed, as models of transformers call it: `hidden`, which the model goes on to
    add to, becomes the steered state. Rows past the frame's step are zeros in `normed`.

    probes: for tables that declare some, float32 [rows, probes] on the engine's device, rows as
    many as the largest forward has; what ops such as `probe` give out at the layer is written there.
    Set the attribute `probes` to have the next forwards write elsewhere.
    """

    def __init__(self, weight, frame, layer, probes=None):
        super().__init__()
        _check_table(frame)
        check_probes(frame.steering, probes)
        if tuple(weight.shape) != (frame.steering.hidden_size,):
            raise _errors.InvalidError(
                f"the norm's weight has shape {tuple(weight.shape)}, the table's hidden_size is "
                f"{frame.steering.hidden_size}"
            )
        self.weight = weight
        self.frame = frame
        self.layer = layer
        self.probes = probes

    @classmethod
    def from_module(cls, norm, frame, layer, probes=None):
        """Take over the weight of a norm whose epsilon is the table's."""
        _check_table(frame)
        epsilon = next(
            (getattr(norm, name) for name in ("variance_epsilon", "eps") if hasattr(norm, name)),
            None,
        )
        declared = frame.steering.epsilon
        if epsilon is None or ctypes.c_float(epsilon).value != ctypes.c_float(declared).value:
            raise _errors.InvalidError(
                f"the norm's epsilon is {epsilon}, the table's is {declared}"
            )
        return cls(norm.weight, frame, layer, probes)

    def forward(self, hidden, residual=None):
        weight = self.weight.detach()
        cells = None if self.probes is None else cells_of(self.probes, hidden)
        if residual is not None:
            return add_rmsnorm_(self.frame, self.layer, hidden, residual, weight, cells)
        normed = torch.zeros_like(hidden)
        add_rmsnorm_(self.frame, self.layer, normed, hidden, weight, cells)
        return normed

    def extra_repr(self):
        return f"layer={self.layer}, epsilon={self.frame.steering.epsilon}"
