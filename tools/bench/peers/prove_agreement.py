"""Whether a peer's proofs are those that steergraph gave. Needs no torch.

Outcomes and depths are equal and logp is within BOUND, but for candidates with a step whose best two
children were so close that either may be taken: those are passed over, and must be few.
"""

BOUND = 1e-3
MOST_CLOSE = 0.1  # share of candidates that may be passed over


class ProofVerdict:
    def __init__(self):
        self.compared, self.close, self.wrong, self.worst = 0, 0, 0, 0.0
        self.first = ""

    def add(self, index: int, close: float, ours: tuple, theirs: tuple) -> None:
        """(logp, depth, outcome) of a candidate, from both."""
        if close > 0:
            self.close += 1
            return
        self.compared += 1
        distance = abs(theirs[0] - ours[0])
        if tuple(theirs[1:]) == tuple(ours[1:]) and distance <= BOUND:
            self.worst = max(self.worst, distance)
            return
        self.wrong += 1
        self.first = self.first or f"candidate {index}: (logp, depth, outcome) {theirs}, not {ours}"

    def agrees(self) -> bool:
        return self.compared > 0 and self.wrong == 0 and self.close <= MOST_CLOSE * (self.compared + self.close)

    def __str__(self) -> str:
        said = f"{self.wrong} of {self.compared} proofs differ, {self.close} were close"
        return f"{said}; {self.first}" if self.first else said
