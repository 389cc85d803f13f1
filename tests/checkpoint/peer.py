"""The Python side of the checkpoint tests.

    peer.py write DIR    every form that torch, safetensors and transformers write, and truth.json:
                         form -> {"file", "tensors": {name: [dtype, shape, hex of the bytes]}}
    peer.py check DIR    reads what yoke wrote there and prints "ok", or what differs
"""
import json, os, pathlib, sys, warnings
from collections import OrderedDict

import torch
from safetensors.torch import load_file, save_file

warnings.filterwarnings("ignore")
os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = os.environ["HF_HUB_OFFLINE"] = "1"
DTYPES = "float64 float32 float16 bfloat16 int64 int32 int16 int8 uint8 bool complex64 uint16 uint32 uint64 float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz".split()


def bytes_of(t):
    t = t.detach().resolve_conj().contiguous()
    return bytes(t.untyped_storage())[t.storage_offset() * t.element_size():][: t.numel() * t.element_size()].hex()


def describe(tensors):
    return {k: [str(v.dtype).removeprefix("torch."), list(v.shape), bytes_of(v)] for k, v in tensors.items()}


def typed():
    torch.manual_seed(0)
    return {f"a.{d}": (torch.randn(3, 2) * 3).abs().to(getattr(torch, d)) for d in DTYPES}


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.features = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.BatchNorm2d(2), torch.nn.ReLU())
        self.classifier = torch.nn.Linear(2, 2)
        self.tied = self.classifier
        self.register_buffer("transient", torch.ones(1), persistent=False)
        self.register_buffer("nothing", None)


def bert(kind, **more):
    import transformers
    torch.manual_seed(7)
    config = transformers.BertConfig(hidden_size=8, num_hidden_layers=2, num_attention_heads=2, intermediate_size=16, vocab_size=50, max_position_embeddings=16, **more)
    return getattr(transformers, kind)(config)


def write(folder):
    torch.manual_seed(1)
    net, truth = Net(), {}
    plain = {k: v.clone() for k, v in net.state_dict().items()}
    wrapped = torch.nn.DataParallel(net)
    adam = torch.optim.Adam(net.parameters())
    base = torch.randn(6, 4)
    views = {"whole": base, "row": base[2], "turned": base.t(), "scalar": torch.tensor(5.0), "empty": torch.empty(0, 3), "wide": torch.ones(1).expand(2, 3)}
    tagged = torch.nn.Parameter(torch.ones(2))
    tagged.tag = 1
    extra = {"complex128": torch.randn(2, dtype=torch.complex128), "conj": torch.randn(2, dtype=torch.complex64).conj()}
    for dtype in ("float32", "float16", "bfloat16", "float64", "complex64", "float8_e4m3fn"):
        half = {k: v.to(getattr(torch, dtype)) if v.is_floating_point() else v for k, v in plain.items()}
        truth[f"state dict in {dtype}"] = OrderedDict(half), half
    truth |= {
        "state dict": (net.state_dict(), plain),
        "plain dict": (plain, plain),
        "DataParallel": (wrapped.state_dict(), {"module." + k: v for k, v in plain.items()}),
        "nested": ({"epoch": 3, "state_dict": net.state_dict(), "optimizer": adam.state_dict(), "best": 0.5, "note": None}, plain),
        "nested twice": ({"checkpoint": {"model": plain}}, plain),
        "whole model": (net, plain),
        "whole DataParallel": (wrapped, {"module." + k: v for k, v in plain.items()}),
        "parameters": ({"p": torch.nn.Parameter(torch.ones(2)), "tagged": tagged}, {"p": torch.ones(2), "tagged": torch.ones(2)}),
        "types": (typed() | extra, typed() | extra),
        "views": (views, views),
        "numbers beside": (plain | {"epoch": 3, "name": "x", "list": [1, 2.5, None, True, 1 << 70]}, plain),
    }
    out = {}
    for name, (value, tensors) in truth.items():
        for form in ("zip", "legacy"):
            file = f"{name} {form}.pth".replace(" ", "_")
            torch.save(value, folder / file, _use_new_zipfile_serialization=form == "zip")
            out[f"{name}, {form}"] = {"file": file, "tensors": describe(tensors)}
    torch.save(plain, folder / "protocol4.pth", pickle_protocol=4)
    out["pickle protocol 4"] = {"file": "protocol4.pth", "tensors": describe(plain)}
    torch.save(plain, folder / "protocol5.pth", pickle_protocol=5)
    out["pickle protocol 5"] = {"file": "protocol5.pth", "tensors": describe(plain)}
    flat = {k: v.clone().contiguous() for k, v in (typed() | {k: views[k] for k in ("scalar", "empty")} | {'ü"\n': torch.ones(1)}).items()}
    save_file(flat, folder / "types.safetensors", metadata={"format": "pt"})
    out["safetensors"] = {"file": "types.safetensors", "tensors": describe(flat)}
    save_file({}, folder / "none.safetensors")
    out["empty safetensors"] = {"file": "none.safetensors", "tensors": {}}
    pretraining = bert("BertForPreTraining")
    state = {k: v for k, v in pretraining.state_dict().items()}
    pretraining.save_pretrained(folder / "pretraining")
    shared = {"cls.predictions.decoder.weight", "cls.predictions.decoder.bias"}  # tied: safetensors has them once
    out["BertForPreTraining"] = {"folder": "pretraining", "tensors": describe({k: v for k, v in state.items() if k not in shared})}
    pretraining.save_pretrained(folder / "sharded", max_shard_size="4KB")
    out["BertForPreTraining, sharded"] = {"folder": "sharded", "tensors": out["BertForPreTraining"]["tensors"]}
    (folder / "bin").mkdir(exist_ok=True)
    pretraining.config.save_pretrained(folder / "bin")
    torch.save(pretraining.state_dict(), folder / "bin/pytorch_model.bin")
    out["BertForPreTraining, bin"] = {"folder": "bin", "tensors": describe(state)}
    (folder / "bins").mkdir(exist_ok=True)
    pretraining.config.save_pretrained(folder / "bins")
    keys = list(state)
    for i, part in enumerate((keys[:9], keys[9:])):
        torch.save({k: state[k] for k in part}, folder / f"bins/pytorch_model-0000{i + 1}-of-00002.bin")
    (folder / "bins/pytorch_model.bin.index.json").write_text(json.dumps({"metadata": {"total_size": 0}, "weight_map": {k: f"pytorch_model-0000{1 + (i >= 9)}-of-00002.bin" for i, k in enumerate(keys)}}))
    out["BertForPreTraining, bin, sharded"] = {"folder": "bins", "tensors": describe(state)}
    model = bert("BertForSequenceClassification", id2label={i: f"é{i}" for i in range(12)}, label2id={f"é{i}": i for i in range(12)})
    model.save_pretrained(folder / "classifier")
    out["BertForSequenceClassification"] = {"folder": "classifier", "tensors": describe(model.state_dict())}
    (folder / "truth.json").write_text(json.dumps(out))
    print("ok")


def check(folder):
    faults = []
    want = json.loads((folder / "want.json").read_text())
    got = {k: [d, s, h] for k, (d, s, h) in describe(load_file(folder / "types.safetensors")).items()}
    if got != want:
        faults.append(f"types.safetensors differs in {sorted(k for k in set(got) | set(want) if got.get(k) != want.get(k))}")
    save_file(load_file(folder / "types.safetensors"), folder / "again.safetensors", metadata={"format": "pt"})
    if (folder / "again.safetensors").read_bytes() != (folder / "types.safetensors").read_bytes():
        faults.append("the library writes other bytes")
    from transformers import AutoModelForSequenceClassification
    truth = AutoModelForSequenceClassification.from_pretrained(folder / "classifier").state_dict()
    for name in ("one", "shards"):
        model, info = AutoModelForSequenceClassification.from_pretrained(folder / name, output_loading_info=True)
        bad = {k: sorted(v)[:3] for k, v in info.items() if v and k.endswith("_keys")}
        if bad:
            faults.append(f"{name}: {bad}")
        state = model.state_dict()
        if set(state) != set(truth) or any(not torch.equal(state[k], truth[k]) for k in truth):
            faults.append(f"{name}: other tensors")
        if (folder / name / "config.json").read_bytes() != (folder / "classifier/config.json").read_bytes():
            faults.append(f"{name}: config.json is written otherwise than by transformers")
    if not (folder / "shards/model.safetensors.index.json").exists():
        faults.append("no shards")
    print("; ".join(faults) or "ok")


if __name__ == "__main__":
    {"write": write, "check": check}[sys.argv[1]](pathlib.Path(sys.argv[2]))
