"""A module right in one trial: is it right through and through? And what is true of one that nothing explains."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import nn

from .comparing import Mistake, flow, weights_like
from .differences import same
from .modules import Trial, find, recognise
from .verdict import Wrong


def confirm(
    trial: Trial,
    other: Callable[[], Trial],
    function: Callable,
    reading,
    read: Callable,
    count: int,
    mistakes: Iterable[Mistake] = (),
) -> None:
    """Raise Wrong unless a module that is right in `trial` is right through and through.

    It must have `count` parameters, be right for a smaller input too, and under the same reading at the
    size of `other()` (one of the `mistakes` may show there first), and send the right gradients to its
    input and parameters.
    """
    same_count(trial, count)
    same_for_fewer(trial, function, read(trial, reading))
    right_so_far = f"Right with {trial.sizes}, but not at another size.\n"
    try:
        again = other()
        if find(again, function, [reading], read) is None:
            recognise(again, mistakes, [reading], read)
            raise Wrong(f"The values are wrong with {again.sizes}.", FIXED)
    except Wrong as wrong:
        wrong.message = right_so_far + wrong.message
        raise
    same_gradients(trial, function, read(trial, reading))


FIXED = "Look for numbers in `__init__` and `forward` that should come from the arguments or the input's shape."


def same_for_fewer(trial: Trial, function: Callable, weights) -> None:
    """Raise Wrong unless the same object is right for one image alone, and without its last token."""
    fewer = trial.x[:1, :-1] if trial.x.ndim == 3 else trial.x[:1]
    if not same(trial.run(fewer), function(weights, fewer)):
        raise Wrong(
            f"Right for an input of {tuple(trial.x.shape)}, wrong when the same object then gets {tuple(fewer.shape)}.",
            "The result may depend on the weights and this input only: what does `forward` keep from call to call?",
        )


def same_gradients(trial: Trial, function: Callable, weights) -> None:
    """Raise Wrong unless input and parameters get the gradients that they get through `function(weights, x)`."""
    names, parameters = zip(*trial.module.named_parameters(), strict=True)
    if frozen := [name for name, p in zip(names, parameters, strict=True) if not p.requires_grad]:
        raise Wrong(f"The parameter `{frozen[0]}` has `requires_grad=False`: it can never learn.")
    x = trial.x.clone().requires_grad_()
    out, expected = trial.run(x), function(weights, x)
    if not out.requires_grad:
        raise Wrong("The values are right, but no gradient flows back through them.", DETACHED)
    mine, theirs = (flow((y * weights_like(y)).sum(), [x, *parameters]) for y in (out, expected))
    # Rounding grows with the largest gradient, and the key bias has none at all but rounding.
    size = max(grad.abs().max().item() for grad in theirs if grad is not None)
    for name, p, got, wanted in zip(["input", *names], [x, *parameters], mine, theirs, strict=True):
        got, wanted = (torch.zeros_like(p) if grad is None else grad for grad in (got, wanted))
        if not same(got / size, wanted / size):
            where = "the input" if p is x else f"`{name}`"
            found = f"the gradient of {where} is not" if got.any() else f"no gradient reaches {where}"
            raise Wrong(f"The values are right, but {found}.", DETACHED)


DETACHED = (
    "Something cuts the computation: look for `.detach()`, `.data`, `no_grad`, `.item()` and `torch.tensor(...)`."
)


def same_count(trial: Trial, count: int) -> None:
    """Raise Wrong unless the module has `count` parameters; says which of its own go unused."""
    total = sum(p.numel() for p in trial.module.parameters())
    if total != count:
        layers = [(name, m) for name, m in trial.module.named_modules() if isinstance(m, (nn.Linear, nn.LayerNorm))]
        bare = [f"`{name}`" for name, layer in layers if layer.bias is None]
        unbiased = f" Without a bias: {', '.join(bare)}." if bare else ""
        raise Wrong(
            f"The values are right, but your module has {total} parameters with {trial.sizes}, and the paper's has "
            f"{count}.{unused(trial)}{unbiased}",
            "Every linear layer and every LayerNorm of the paper has a bias. Delete what `forward` does not use.",
        )


def unused(trial: Trial) -> str:
    """A sentence on the parameters that the result does not depend on; empty if there are none."""
    own = {name: p for name, p in trial.module.named_parameters() if p.requires_grad}
    out = trial.run()
    grads = flow(out.sum(), list(own.values())) if out.requires_grad and own else ()
    idle = [f"`{name}`" for name, grad in zip(own, grads, strict=False) if grad is None]
    return f" Never used: {', '.join(idle)}." if idle else ""


def facts(trial: Trial, count: int, tokens: bool = True) -> str:
    """What is true of a module that no reading explains, in sentences: parameters, images and tokens."""
    total = sum(p.numel() for p in trial.module.parameters())
    number = "as many as it should" if total == count else f"and should have {count}"
    sentences = [f"It has {total} parameters, {number}.{unused(trial) if total else ''}"]
    if trial.out.min() >= 0:
        sentences.append("No result is below 0: is there a ReLU at the end?")
    alone = torch.cat([trial.run(image[None]) for image in trial.x])
    if same(alone, trial.out):
        sentences.append("An image gets the same result alone and in a batch, as it must.")
    else:
        sentences.append("An image gets another result alone than in a batch: somewhere images mix.")
    if tokens:
        turned = same(trial.run(trial.x.flip(1)), trial.out.flip(1))
        sentences.append(
            "Tokens in another order give the same results in that order, as they must."
            if turned
            else "Tokens in another order give other results: somewhere numbers of different tokens get mixed up."
        )
    return " ".join(sentences)
