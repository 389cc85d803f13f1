"""Writes schedules.json: learning rates by step from transformers' own schedulers.

    .venv/bin/python tests/golden/make_schedules.py
"""
import json, math, pathlib
import torch
from transformers import get_scheduler

cases = []
for name in ("linear", "cosine", "constant", "constant_with_warmup"):
    for total, warmup in ((10, 0), (10, 3), (37, 0.1), (5, 5)):
        steps = math.ceil(total * warmup) if warmup < 1 else warmup
        parameter = torch.nn.Parameter(torch.zeros(1))
        optimizer = torch.optim.SGD([parameter], lr=5e-5)
        scheduler = get_scheduler(name, optimizer, num_warmup_steps=steps, num_training_steps=total)
        rates = []
        for _ in range(total):
            rates.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            scheduler.step()
        cases.append({"name": name, "total": total, "warmup": warmup, "rates": rates})
path = pathlib.Path(__file__).with_name("schedules.json")
path.write_text(json.dumps(cases, indent=1) + "\n")
