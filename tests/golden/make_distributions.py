"""Write `distributions.npz` from PyTorch, in double precision from float32 parameters; see `make_golden.py`.

    golden/bin/python -m tests.golden.make_distributions

For each case: the log density, the gradients of its weighted sum by the values and by each parameter, moments, entropy
and distribution function where PyTorch has them, and the divergence from the case's pair.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import distributions as D

from tests.golden.distributions import CASES, Case, weights


def answers(case: Case) -> dict[str, np.ndarray]:
    parameters = [torch.from_numpy(np.array(p)).double().requires_grad_() for p in case.parameters]
    values = torch.from_numpy(np.array(case.values)).double().requires_grad_(case.differentiable)
    found = case.build(D, *parameters)
    log_prob = found.log_prob(values)
    wanted = [values, *parameters] if case.differentiable else parameters
    weighted = (log_prob * torch.from_numpy(weights(log_prob.shape))).sum()
    gradients = torch.autograd.grad(weighted, wanted, materialize_grads=True)
    results = {"log_prob": log_prob}
    results |= {f"gradient {number}": g for number, g in enumerate(gradients)}
    for name in case.asked:
        asked = getattr(found, name)
        results[name] = asked(values) if name == "cdf" else asked() if callable(asked) else asked
    if case.pair is not None:
        other = case.build(D, *[torch.from_numpy(np.array(p)).double() for p in case.pair])
        results["kl"] = D.kl_divergence(found, other)
    return {name: value.detach().numpy() for name, value in results.items()}


def main() -> None:
    D.Distribution.set_default_validate_args(False)  # float32 parts do not sum to 1 in double precision
    frozen = {f"{name}/{what}": array for name, case in CASES.items() for what, array in answers(case).items()}
    np.savez_compressed(Path(__file__).with_name("distributions.npz"), **frozen)


if __name__ == "__main__":
    main()
