"""The Muon optimizer for the weight matrices of a small model on a CPU.

Owns the orthogonalised momentum step.  PyTorch has a Muon of its own, but it orthogonalises in bfloat16, which a CPU
without native support computes far more slowly than float32.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

Map = Callable[[Callable[[Any], None], Iterable[Any]], Iterable[None]]
_MOMENTUM, _STACK = 0.95, 8
_COEFFICIENTS = (3.4445, -4.7750, 2.0315)


def orthogonalise(x: Tensor) -> Tensor:
    """Move the singular values of a stack of wide matrices near to one, by five Newton-Schulz iterations."""
    a, b, c = _COEFFICIENTS
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(5):
        gram = x @ x.mT
        x = a * x + torch.baddbmm(gram, gram, gram, beta=b, alpha=c) @ x
    return x


def _wide(x: Tensor) -> Tensor:
    return x if x.shape[0] <= x.shape[1] else x.T


class _Stack:
    """Some matrices of one size, as wide matrices, with their momentum."""

    def __init__(self, parameters: list[Tensor]) -> None:
        self.parameters = parameters
        self.momentum = torch.stack([torch.zeros_like(_wide(p)) for p in parameters])

    def step(self, rate: float, decay: float) -> None:
        gradient = torch.stack([_wide(p.grad) for p in self.parameters])
        self.momentum.lerp_(gradient, 1 - _MOMENTUM)
        update = orthogonalise(gradient.lerp(self.momentum, _MOMENTUM))
        scale = 0.2 * max(update.shape[1:]) ** 0.5  # the size of AdamW's updates
        for parameter, wide in zip(self.parameters, update, strict=True):
            parameter.mul_(1 - rate * decay)
            parameter.add_(wide if wide.shape == parameter.shape else wide.T, alpha=-rate * scale)


class Muon:
    """Steps matrices along their orthogonalised momentum."""

    def __init__(self, matrices: Iterable[Tensor], decay: float) -> None:
        """Sort the matrices into stacks of one size.

        Args:
            matrices: The parameters, all with two dimensions.
            decay: Weight decay, times the learning rate.
        """
        sizes: dict[tuple[int, ...], list[Tensor]] = {}
        for matrix in matrices:
            sizes.setdefault(tuple(_wide(matrix).shape), []).append(matrix)
        groups = sizes.values()
        self.stacks = [_Stack(group[i : i + _STACK]) for group in groups for i in range(0, len(group), _STACK)]
        self.decay = decay

    def step(self, rate: float, apply: Map = map) -> None:
        """Do one step with the gradients that the parameters hold.

        Args:
            rate: The learning rate.
            apply: A ``map``, such as that of a thread pool; the stacks are independent of one another.
        """

        def step(stack: _Stack) -> None:
            with torch.no_grad():
                stack.step(rate, self.decay)

        list(apply(step, self.stacks))
