"""What probes ask with: random values, where values come from, what a tensor is a sum of."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from .running import attempt, close, tensors_in

# Whether a fault is seen, and the sentence for it: `yield close(got, 2 * right), "Your result is twice the right one."`
Probes = Iterator[tuple[bool, str]]


def noise(*shape: int, seed: int = 0) -> Tensor:
    """Return random values, the same for the same shape and seed."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed + sum(shape)))


def few(values: Tensor, most: int = 6) -> str:
    """Write which whole numbers there are, the first of them: "[0, 1, 2, …]"."""
    found = values.unique().tolist()
    return f"[{', '.join(map(str, found[:most]))}{', …' if len(found) > most else ''}]"


def origin(result: Tensor, given: Tensor) -> list[Tensor] | None:
    """Return where each value stands among those that were given, all different, axis by axis; None for a new one."""
    place = {value: index for index, value in enumerate(given.flatten().tolist())}
    found = [place.get(value) for value in result.flatten().tolist()]
    if None in found:
        return None
    return [axis.reshape(result.shape) for axis in torch.unravel_index(torch.tensor(found), given.shape)]


def probe_place(got: Tensor, expected: Tensor, given: Tensor, axes: Sequence[str], given_axes: Sequence[str]) -> Probes:
    """Ask whether each value of a result is the one of those given that belongs there; the axes' names say which."""
    mine, right = origin(got, given), origin(expected, given)
    yield mine is None, "Your result holds values that are not among those that were given."
    at = tuple((got != expected).nonzero()[0].tolist())
    place = ", ".join(map("{} {}".format, axes, at))
    yours = ", ".join(map("{} {}".format, given_axes, [axis[at] for axis in mine]))
    asked = ", ".join(map("{} {}".format, given_axes, [axis[at] for axis in right]))
    yield True, f"At {place} of your result stands what was at {yours}. What was at {asked} belongs there."


def as_sum(value: Tensor, terms: Mapping[str, Tensor], kind: str = "") -> str:
    """Write a tensor as a sum of others, "z + 2·mlp", or a mean of many of one `kind`; "something else" if none."""
    terms = {name: term for name, term in terms.items() if term.shape == value.shape}
    if not terms:
        return "something else"
    columns = torch.stack(list(terms.values())).flatten(1).T.double()
    shares = torch.linalg.lstsq(columns, value.flatten().double()[:, None]).solution[:, 0]
    if not close(columns @ shares, value.flatten(), 1e-5):
        return "something else"
    found = {name: round(share, 3) for name, share in zip(terms, shares.tolist(), strict=True) if abs(share) > 1e-3}
    if kind and len(found) > 2 and set(found.values()) == {round(1 / len(found), 3)}:
        first, *_, last = found
        return f"the mean of {len(found)} {kind}, from {first} to {last}"
    return " + ".join(name if share == 1 else f"{share:g}·{name}" for name, share in found.items()) or "nothing"


@dataclass
class Pair:
    """The reader's module and the solution, and an input `x`. A probe may choose the weights of the reader's."""

    mine: nn.Module
    ours: nn.Module
    args: tuple  # of both classes
    x: Tensor
    # the layout that fits: where in the row of all the reader's weights each parameter of ours stands; None if unknown
    indices: Mapping[str, Tensor] | None = None

    def share(self, layouts: Iterable[Mapping[str, Tensor]], result: Tensor) -> Tensor:
        """Give the solution the reader's weights, the first layout that fits, or nearly; return its result, or nan."""
        weights = parameters_to_vector(self.mine.parameters()).detach()

        def outcome(layout: Mapping[str, Tensor]) -> Tensor:
            self.indices = layout
            for name, indices in layout.items():
                own = self.ours.get_parameter(name)
                own.data = weights[indices].reshape(own.shape)
            return self.ours(self.x)

        found, least = None, torch.inf
        for layout in layouts:
            off = (outcome(layout) - result).norm()
            if off < 0.5 * least:  # far better than those before
                found, least = layout, off
            if off < 1e-5 * result.norm():
                break
        return torch.tensor(torch.nan) if found is None else outcome(found)

    def mine_with(self, x: Tensor, **chosen: Tensor) -> Tensor:
        """Return what the reader's module makes of `x` with these weights, and no biases, in layers of these names."""
        weights = parameters_to_vector(self.mine.parameters()).detach()
        others = weights.clone()
        for name, indices in self.indices.items():
            layer, _, kind = name.rpartition(".")
            if layer in chosen:
                others[indices] = 0.0 if kind == "bias" else chosen[layer].flatten()
        vector_to_parameters(others, self.mine.parameters())
        try:
            with torch.no_grad():
                return self.mine(x)
        finally:
            vector_to_parameters(weights, self.mine.parameters())


def probe_mixing(pair: Pair) -> Probes:
    """Ask whether an image gets another result alone than in its batch."""
    together, alone = pair.mine(pair.x), attempt(lambda: torch.cat([pair.mine(image[None]) for image in pair.x]))
    differs = not isinstance(alone, Exception) and not close(alone, together)
    yield differs, "An image gets another result alone than in a batch: somewhere images mix."


def probe_flow(pair: Pair, parts: Mapping, source: str, asked: Mapping, whole: str, output: str, by: str) -> Probes:
    """Ask whether each part is given what is asked, {"norm2": "z + attention"}, and the whole returns its output.

    Each part is made to return a mark, random values of its own, so that a value tells what it is made of.
    """
    given, marks, tokens = [], {source: pair.x}, {}

    def made_of(value: Tensor) -> str:  # of marks, or where it is one row for each image, of their tokens
        return as_sum(value, marks | tokens, kind="tokens" if value.ndim == 2 else "")

    def put_mark(name: str, part: nn.Module, args: tuple, result):
        given.append((name, ", ".join(dict.fromkeys(map(made_of, tensors_in(args))))))
        calls = sum(called == name for called, _ in given)
        mark = noise(*tensors_in([result])[0].shape, seed=len(marks))
        own = name if calls == 1 else f"{name} ({calls})"
        marks[own] = mark
        if mark.ndim == 3:
            tokens.update({f"token {t} of {own}": token for t, token in enumerate(mark.unbind(1))})
        return (mark, *result[1:]) if isinstance(result, tuple) else mark

    with ExitStack() as hooks:
        for name, part in parts.items():
            hooks.enter_context(part.register_forward_hook(partial(put_mark, name)))
        returned = made_of(pair.mine(pair.x))
    yours = f"Your {whole} computes {', '.join(f'{name}({what})' for name, what in given)}, and returns {returned}."
    for name, right in asked.items():
        inputs = " and then ".join(what for called, what in given if called == name) or "nothing"
        yield inputs != right, f"`{name}` is given {inputs}. By {by} it is given {right}, once. {yours}"
    yield returned != output, f"{yours} By {by} it returns {output}."
