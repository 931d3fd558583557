"""How ops of the package are told to torch. Knows none of them."""
import torch

# Compiled code hands on rows as far apart as the model made them.
_TAGS = (
    torch.Tag.pt2_compliant_tag,
    getattr(torch.Tag, "needs_exact_strides", torch.Tag.needs_fixed_stride_order),
)


def define(ops):
    """(name, schema, kernel of all devices, kernel of tensors that hold nothing) of each op. The ops
    go with the Library that is returned."""
    library = torch.library.Library("steergraph", "FRAGMENT")
    for name, schema, kernel, fake in ops:
        library.define(name + schema, tags=_TAGS)
        library.impl(name, kernel, "CompositeExplicitAutograd")
        torch.library.register_fake(f"steergraph::{name}", fake, lib=library)
    return library


def wants_grad(*tensors):
    """Whether autograd would have to know of a call with these tensors, of which some may be None."""
    if torch.is_grad_enabled():
        for tensor in tensors:
            if tensor is not None and tensor.requires_grad:
                return True
    return False
