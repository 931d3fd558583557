"""torch.compile of the loop over requests in mode reduce-overhead; see compiled.py."""
import compiled
import peer

if __name__ == "__main__":
    peer.main([(
        "torch.compile loop (reduce-overhead)",
        lambda side: compiled.compiled(side, mode="reduce-overhead"),
    )])
