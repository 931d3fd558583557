"""y = ((x V) * m) U + bias + d * (x Delta^T) and its gradients in float64, with bounds, by numpy.

All tensors are float64 [rows, ...]; the mask is [rows, C], what it really is the caller's to sum.
"""
import numpy as np

NAMES = ("y", "dx", "dv", "du", "dm", "dbias", "dd", "ddelta")


def values(x, v, u, m, bias, d, delta, dy):
    """By name. Where there is no bias or no delta, they are zeros."""
    t, g = x @ v, dy @ u.T
    back = dy @ delta
    return {
        "y": (t * m) @ u + bias + d[:, None] * (x @ delta.T),
        "dx": (g * m) @ v.T + d[:, None] * back,
        "dv": x.T @ (g * m),
        "du": (t * m).T @ dy,
        "dm": g * t,
        "dbias": dy.sum(0),
        "dd": (x * back).sum(1),
        "ddelta": (d[:, None] * dy).T @ x,
    }


def bounds(unit, smallest, **inputs):
    """How far each may be off before it is stored. All is sums of products: of absolute values they
    are what errors are relative to. `unit` is of a product's operand that was rounded once; sums in
    float32, of which the longest chain has all dimensions, may round down."""
    terms = sum(inputs["v"].shape) + sum(inputs["dy"].shape) + 16
    size = values(**{name: abs(tensor) for name, tensor in inputs.items()})
    lost = {name: np.zeros_like(tensor) for name, tensor in size.items()}
    # an operand that is rounded where numbers have no full precision
    lost["y"] = smallest * abs(inputs["u"]).sum(0) + lost["y"]
    lost["dx"] = smallest * abs(inputs["v"]).sum(1) + lost["dx"]
    lost["dv"] = smallest * abs(inputs["x"]).sum(0)[:, None] + lost["dv"]
    lost["du"] = smallest * abs(inputs["dy"]).sum(0) + lost["du"]
    lost["ddelta"] = smallest * abs(inputs["x"]).sum(0) + lost["ddelta"]
    return {name: size[name] * (terms * 2.0**-22 + unit) + lost[name] for name in size}
