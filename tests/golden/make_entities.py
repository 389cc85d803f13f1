"""Entity scores of random tag sequences, as seqeval 1.2.2 counts them (default mode, micro average).

    python make_entities.py > entities.json          needs the PyPI package seqeval
"""
import json
import random
import warnings

from seqeval.metrics import f1_score, precision_score, recall_score

warnings.filterwarnings("ignore")
rng = random.Random(7)
SETS = {
    "iob2": ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"],
    "bioes": ["O"] + [f"{k}-{t}" for t in ("PER", "MISC-X") for k in "BIES"],
    "bare": ["O", "B", "I"],
    "io": ["I-a", "O", "I-b"],
}


def tags(names, n):
    return [rng.choice(names) if rng.random() < 0.7 else "O" for _ in range(n)]


cases = []
for kind, names in SETS.items():
    for count in (1, 1, 2, 5, 20):
        truth = [tags(names, rng.randint(0, 12)) for _ in range(count)]
        guess = [[t if rng.random() < 0.7 else rng.choice(names) for t in row] for row in truth]
        cases.append((names, truth, guess))
cases.append((SETS["iob2"], [["O", "O"]], [["O", "B-PER"]]))            # nothing to find
cases.append((SETS["iob2"], [["B-PER", "O"]], [["O", "O"]]))            # nothing found
cases.append((SETS["iob2"], [["B-PER"], ["I-PER"]], [["B-PER"], ["O"]]))      # no entity spans two rows
cases.append((SETS["iob2"], [["B-PER", "I-LOC"]], [["B-PER", "B-LOC"]]))      # another type begins one
print("[" + ",\n".join(json.dumps({
    "names": names, "truth": truth, "predicted": guess,
    "precision": float(precision_score(truth, guess)), "recall": float(recall_score(truth, guess)),
    "f1": float(f1_score(truth, guess))}) for names, truth, guess in cases) + "]")
