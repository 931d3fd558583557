"""The published proof search: one step for a whole batch, on padded tensors of fixed shapes.

Facts are padded to the largest predicate, rules to the most rules of one, derived states to
[batch, children, 26 atoms, 3]; every child is evaluated, those that there are not among them. A step does the
same work whether a query is done or not, and can be compiled or captured: no shape and no branch depends on
what is found.
"""
import math

import prove_case

import torch
import torch.nn.functional as F

DENSE_ATOMS = 26
NOTHING = -1  # stands for no variable
MIX = (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)


def signed(word: int) -> int:
    """64 bits as torch has them."""
    return word - (1 << 64) if word >> 63 else word


def shifted(x, bits: int):
    """x >> bits of 64 bits without a sign."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)


def mix(atoms):
    """stg_kb_mix of atoms [..., 3]."""
    x = atoms[..., 1] | (atoms[..., 2] << 32)
    x = x ^ (atoms[..., 0] * signed(MIX[0]))
    x = (x ^ shifted(x, 30)) * signed(MIX[1])
    x = (x ^ shifted(x, 27)) * signed(MIX[2])
    return x ^ shifted(x, 31)


class Base:
    """Facts and rules by predicate, padded with zeros."""

    def __init__(self, case, device):
        base = case.base
        self.limits = (case.atoms, case.children, case.depth)
        self.n, self.words = len(base.constants), len(base.predicates)
        rows = self.words + prove_case.ENDF + 1
        facts = [[] for _ in range(rows)]
        rules = [[] for _ in range(rows)]
        for pred, a, b in base.facts:
            facts[pred].append((a, b))
        for head, body in base.rules:
            rules[head[0]].append((head, body))
        self.facts = padded([[list(fact) for fact in of] for of in facts], (2,), device)
        longest = max((len(body) for _, body in base.rules), default=1)
        variable = self.n + 2 * case.atoms  # a rule's variables come behind those of a state
        arg = lambda x: variable - x if x < 0 else x  # noqa: E731
        atom = lambda x: [x[0], arg(x[1]), arg(x[2])]  # noqa: E731
        self.heads = padded([[atom(head)[1:] for head, _ in of] for of in rules], (2,), device)
        self.bodies = padded(
            [[[atom(x) for x in body] + [[0, 0, 0]] * (longest - len(body)) for _, body in of] for of in rules],
            (longest, 3), device)  # fmt: skip
        self.keys = torch.tensor(sorted(self.key(*fact) for fact in base.facts), device=device)

    def key(self, pred, a, b):
        return (pred * (self.n + 1) + a) * (self.n + 1) + b

    def word(self, which: int, like):
        """True, False or Endf as states [..., atoms, 3] of zeros otherwise."""
        state = torch.zeros_like(like)
        state[..., 0, 0] = self.words + which
        return state


def padded(lists: list, shape: tuple, device):
    """[len(lists), the longest of them, *shape], zeros behind the shorter ones."""
    most = max(1, max(len(of) for of in lists))
    zero = torch.zeros(shape, dtype=torch.int64).tolist()
    return torch.tensor([of + [zero] * (most - len(of)) for of in lists], dtype=torch.int64, device=device)


class Policy(torch.nn.Module):
    """logits [batch, children] of children of states; of any that are there or not."""

    def __init__(self, case, tensors: dict):
        super().__init__()
        self.atoms, self.scale = case.atoms, 1 / math.sqrt(case.embed)
        none = torch.zeros(1, case.embed, device=tensors["in.bias"].device)  # of a pad
        self.predicate = torch.nn.Embedding.from_pretrained(torch.cat((none, tensors["predicate.weight"])))
        self.entity = torch.nn.Embedding.from_pretrained(torch.cat((none, tensors["entity.weight"])))
        self.inner = torch.nn.ModuleDict()
        linear = {"in": (case.embed, case.hidden), "head": (case.hidden, case.hidden), "out": (case.hidden, case.embed)}
        linear |= {f"blocks.{i}": (case.hidden, case.hidden) for i in range(case.blocks)}
        norms = ["in_norm", *(f"blocks.{i}.norm" for i in range(case.blocks))]
        self.blocks = [f"blocks_{i}" for i in range(case.blocks)]
        for name, sizes in linear.items():
            self.keep(name, torch.nn.Linear(*sizes), tensors)
        for name in norms:
            self.keep(name, torch.nn.LayerNorm(case.hidden, eps=case.epsilon), tensors)

    def keep(self, name: str, module, tensors: dict) -> None:
        module.weight = torch.nn.Parameter(tensors[f"{name}.weight"], requires_grad=False)
        module.bias = torch.nn.Parameter(tensors[f"{name}.bias"], requires_grad=False)
        self.inner[name.replace(".", "_")] = module

    def embed(self, states):
        at = self.predicate(states[..., 0]) + self.entity(states[..., 1]) - self.entity(states[..., 2])
        return at.sum(-2) / self.atoms

    def value(self, states):
        inner = self.inner
        x = inner["in_norm"](F.relu(inner["in"](self.embed(states))))
        for block in self.blocks:
            x = x + inner[f"{block}_norm"](F.relu(inner[block](x)))
        return inner["out"](F.relu(inner["head"](x)))

    def forward(self, states, children):
        return (self.value(states).unsqueeze(1) * self.value(children)).sum(-1) * self.scale


def substitute(x, substitution):
    for old, new in substitution:
        x = torch.where(x == old, new, x)
    return x


def unify(n: int, goal, other):
    """Arguments (a, b) [batch, 1] of goals and of what they meet [batch, m]: (whether they unify, what is
    put for what, one after the other). A template's variable takes the goal's term."""
    (a, b), (c, d) = goal, other
    nothing = torch.full_like(c, NOTHING)
    free = c > n
    fits = free | (a > n) | (a == c)
    old = torch.where(free, c, torch.where(a > n, a, nothing))
    first = (old, torch.where(free, a, c))
    b, d = substitute(b, [first]), substitute(d, [first])
    free = d > n
    same = b == d
    fits = fits & (same | free | (b > n))
    old = torch.where(same, nothing, torch.where(free, d, torch.where(b > n, b, nothing)))
    return fits, (first, (old, torch.where(free, b, d)))


def places_of(keep, room: int):
    """Where each of the kept goes when they are moved to the left; `room` for the others."""
    place = keep.cumsum(-1) - 1
    return torch.where(keep & (place < room), place, room)


def moved(values, place, room: int):
    """Values [batch..., m, ...] at their places along dimension `place.dim() - 1`, zeros elsewhere."""
    dim = place.dim() - 1
    shape = [*values.shape]
    shape[dim] = room + 1
    index = place.reshape(*place.shape, *[1] * (values.dim() - place.dim())).expand(values.shape)
    return torch.zeros(shape, dtype=values.dtype, device=values.device).scatter_(dim, index, values).narrow(dim, 0, room)


def unified(base: Base, states, queries):
    """The first `children` facts and rules that unify: [batch, children, 26, 3], and whether each is there."""
    atoms, room, _ = base.limits
    goal = states[:, 0]
    facts, heads = base.facts[goal[:, 0]], base.heads[goal[:, 0]]
    met = torch.cat((facts, heads), 1)
    fits, substitution = unify(base.n, (goal[:, 1:2], goal[:, 2:3]), (met[..., 0], met[..., 1]))
    is_query = (goal[:, :1] == queries[:, :1]) & (facts == queries[:, None, 1:]).all(-1)
    fits = fits & (met[..., 0] > 0) & ~F.pad(is_query, (0, heads.shape[1]))
    there = torch.arange(room, device=fits.device) < fits.sum(-1, keepdim=True)
    source = torch.arange(fits.shape[1], device=fits.device).expand(fits.shape)
    source = moved(source, places_of(fits, room), room)
    chosen = [[part.gather(1, source)[..., None, None] for part in one] for one in substitution]
    rule = source - facts.shape[1]  # facts have no body
    body = base.bodies[goal[:, :1], rule.clamp(min=0)] * (rule >= 0)[..., None, None]
    rest = states[:, None, 1:].expand(-1, room, -1, -1)
    children = torch.cat((body, rest), 2)
    children = F.pad(children, (0, 0, 0, DENSE_ATOMS - children.shape[2]))
    arguments = substitute(children[..., 1:], chosen)
    return torch.cat((children[..., :1], arguments), -1), there


def drop_facts(base: Base, children, queries):
    """Without ground facts, to the left; and how many atoms are left."""
    pred, a, b = children.unbind(-1)
    key = base.key(pred, a, b)
    found = base.keys[torch.searchsorted(base.keys, key).clamp(max=len(base.keys) - 1)] == key
    given = found & (a <= base.n) & (b <= base.n) & ~(children == queries[:, None, None]).all(-1)
    keep = (pred > 0) & ~given
    return moved(children, places_of(keep, DENSE_ATOMS), DENSE_ATOMS), keep.sum(-1)


def renumber(base: Base, states):
    """Variables from n + 1 on, by their first occurrence."""
    arguments = states[..., 1:].flatten(-2)
    free = arguments > base.n
    first = (arguments.unsqueeze(-1) == arguments.unsqueeze(-2)).int().argmax(-1)
    number = base.n + ((first == torch.arange(first.shape[-1], device=first.device)) & free).cumsum(-1)
    arguments = torch.where(free, number.gather(-1, first), arguments)
    return torch.cat((states[..., :1], arguments.unflatten(-1, (-1, 2))), -1)


def derive(base: Base, states, queries, path, depth):
    """Children [batch, children, atoms, 3] of states, to the left, and how many there are."""
    atoms, room, _ = base.limits
    children, there = unified(base, states, queries)
    children, left = drop_facts(base, children, queries)
    proved = (there & (left == 0)).any(-1)
    children = renumber(base, children[:, :, :atoms])
    hashes = torch.where(children[..., 0] > 0, mix(children), 0).sum(-1)
    visited = torch.arange(path.shape[1], device=path.device) <= depth.unsqueeze(-1)
    seen = ((hashes.unsqueeze(-1) == path.unsqueeze(1)) & visited.unsqueeze(1)).any(-1)
    good = there & (left > 0) & (left <= atoms) & ~seen
    children = moved(children, places_of(good, room), room)
    count = good.sum(-1).clamp(max=room - 1)
    last = torch.arange(room, device=count.device) == count.unsqueeze(-1)
    children = torch.where(last[..., None, None], base.word(prove_case.ENDF, children), children)
    alone = (proved | (count == 0))[:, None, None]
    word = torch.where(proved[:, None, None], base.word(prove_case.TRUE, states), base.word(prove_case.FALSE, states))
    first = torch.where(alone, word, children[:, 0])
    children = torch.cat((first.unsqueeze(1), children[:, 1:]), 1)
    return children, torch.where(alone.flatten(), 1, count + 1)


def begin(base: Base, queries):
    """(states, path, depth, logp, outcome) of queries [batch, 3]."""
    atoms, _, depth = base.limits
    states = F.pad(queries.unsqueeze(1), (0, 0, 0, atoms - 1))
    path = F.pad(mix(queries).unsqueeze(1), (0, depth))
    zeros = torch.zeros(len(queries), dtype=torch.int64, device=queries.device)
    return states, path, zeros, torch.zeros(len(queries), device=queries.device), zeros.clone()


def step(base: Base, policy: Policy, queries, states, path, depth, logp, outcome):
    """One step of every query; what is done stays as it is, and costs the same."""
    _, room, most = base.limits
    live = outcome == 0
    children, count = derive(base, states, queries, path, depth)
    logits = policy(states, children)
    logits = torch.where(torch.arange(room, device=count.device) < count.unsqueeze(-1), logits, -math.inf)
    action = logits.argmax(-1, keepdim=True)
    gained = logits.log_softmax(-1).gather(-1, action).squeeze(-1)
    picked = children.gather(1, action[..., None, None].expand(-1, -1, *children.shape[2:])).squeeze(1)
    depth = depth + live
    hashes = torch.where(picked[..., 0] > 0, mix(picked), 0).sum(-1)
    here = (torch.arange(path.shape[1], device=path.device) == depth.unsqueeze(-1)) & live.unsqueeze(-1)
    word = (picked[:, 0, 0] - base.words).clamp(min=0)  # 1 to 3 are outcomes by the same numbers
    ended = torch.where(word > 0, word, torch.where(depth >= most, prove_case.OUT_OF_STEPS, 0))
    return (
        torch.where(live[:, None, None], picked, states),
        torch.where(here, hashes.unsqueeze(-1), path),
        depth,
        logp + torch.where(live, gained, 0.0),
        torch.where(live, ended, outcome),
    )
