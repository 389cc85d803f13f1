"""Writes label_configs.json: the label entries of config.json as transformers writes them.

    .venv/bin/python tests/golden/make_label_configs.py
"""
import json
import pathlib

import transformers

CASES = [
    dict(num_labels=2),
    dict(num_labels=3),
    dict(num_labels=12),
    dict(num_labels=1, problem_type="regression"),
    dict(id2label={0: "neg", 1: "pos"}, label2id={"neg": 0, "pos": 1}),
    dict(id2label={0: "b", 1: "a", 2: "ü"}, label2id={"b": 0, "a": 1, "ü": 2}),
]
configs = []
for case in CASES:
    config = transformers.BertConfig(**case)
    # The text of the file, so that the order of keys is kept; and what the library itself makes of it.
    written = json.loads(config.to_json_string(use_diff=True))
    written = {key: written[key] for key in ("id2label", "label2id", "problem_type") if key in written}
    names = [config.id2label[i] for i in range(config.num_labels)]
    configs.append({"config": written, "names": names})
path = pathlib.Path(__file__).with_name("label_configs.json")
path.write_text(json.dumps({"transformers": transformers.__version__, "configs": configs}, indent=1) + "\n")
