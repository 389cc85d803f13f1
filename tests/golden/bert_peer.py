"""A BERT classifier (of rows, or of tokens) of transformers with random weights, some rows, and what it makes of them:
logits, the losses' sum, and every parameter's gradient, without dropout.

    python bert_peer.py FOLDER        writes config.json, model.safetensors, peer.safetensors
"""
import json, pathlib, sys
import torch
from safetensors.torch import save_file
from transformers import BertConfig, BertForSequenceClassification, BertForTokenClassification

folder = pathlib.Path(sys.argv[1])
problem = sys.argv[2] if len(sys.argv) > 2 else "single_label_classification"
labels = 1 if problem == "regression" else 3
torch.manual_seed(5)
config = BertConfig(vocab_size=200, hidden_size=48, num_hidden_layers=3, num_attention_heads=4, intermediate_size=96,
                    max_position_embeddings=40, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, num_labels=labels,
                    initializer_range=0.3)
tokens = problem == "token_classification"
model = (BertForTokenClassification if tokens else BertForSequenceClassification)(config)
for name, parameter in model.named_parameters():
    if "LayerNorm" in name or "bias" in name:
        torch.nn.init.normal_(parameter, mean=1.0 if name.endswith("LayerNorm.weight") else 0.0, std=0.2)
model.save_pretrained(folder)

lengths = [7, 1, 40, 13, 2]
ids = torch.zeros(len(lengths), max(lengths), dtype=torch.long)
mask, types = torch.zeros_like(ids), torch.zeros_like(ids)
for row, length in enumerate(lengths):
    ids[row, :length] = torch.randint(0, 200, (length,))
    mask[row, :length] = 1
    types[row, length // 2:length] = 1
if problem == "regression":
    targets = torch.randn(len(lengths))
elif tokens:
    # 3 targets, none at all, 30, 13 and 1: a mean over rows would be another number.
    targets = torch.full_like(ids, -100)
    for row, (length, count) in enumerate(zip(lengths, [3, 0, 30, 13, 1])):
        targets[row, torch.randperm(length)[:count]] = torch.randint(0, labels, (count,))
else:
    targets = torch.randint(0, labels, (len(lengths),))
out = model(input_ids=ids, attention_mask=mask, token_type_ids=types, labels=targets)
count = int((targets != -100).sum()) if tokens else len(lengths)
(out.loss * count).backward()
tensors = {"input_ids": ids, "attention_mask": mask, "token_type_ids": types, "labels": targets, "logits": out.logits.detach(),
           "loss_sum": (out.loss * count).detach().reshape(1)}
for name, parameter in model.named_parameters():
    tensors["grad." + name] = parameter.grad.contiguous()
save_file(tensors, folder / "peer.safetensors")
