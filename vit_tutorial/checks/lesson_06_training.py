"""Lesson 06: hint, solution, judge and known mistakes of each exercise."""

from __future__ import annotations

import dis
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..config import ViTConfig
from ..model import VisionTransformer
from ..training import parameter_groups as the_packages_groups
from .comparing import Mistake, at_another_size, kind, random_tensor, recognise, same, to_number
from .exercise import exercise
from .running import ReaderError, Wrong, call, raised_by_reader


class Form(NamedTuple):
    """One part of a schedule: `curve(s, w, T)` are the factors of the steps `s`, for w of T steps of warm-up."""

    curve: Callable[[Tensor, int, int], Tensor]
    message: str
    hint: str | None = None


def half_cosine(p: Tensor) -> Tensor:
    return (1 + torch.cos(torch.pi * p)) / 2


def along(shape: Callable[[Tensor], Tensor], phase: Callable, s: Tensor, w: int, T: int) -> Tensor:
    """A curve over the part p of the way: from 0, at the end of the warm-up, to 1."""
    return shape(phase(s, w, T))


def forms(curves: list[Callable], message: str, hint: str | None = None) -> list[Form]:
    return [Form(curve, message, hint) for curve in curves]


def falls(shape: Callable[[Tensor], Tensor], message: str, hint: str | None = None) -> list[Form]:
    """A wrong shape, with every right way of counting the steps."""
    return forms([partial(along, shape, phase) for phase, _ in PHASES], message, hint)


# Right: the package's way first. The messages are remarks.
STARTS_AT_0 = "Your warm-up starts at 0: the first step changes nothing. The package's starts at 1 / warmup_steps."


ENDS_AT_0 = "Your cosine is 0 at the last step: that step changes nothing. The package's would be 0 one step later."


WARM_UPS = [
    Form(lambda s, w, T: (s + 1) / w, ""),
    Form(lambda s, w, T: s / w, STARTS_AT_0),
    Form(lambda s, w, T: s / max(w - 1, 1), STARTS_AT_0),
    Form(lambda s, w, T: (s + 1) / (w + 1), "Your warm-up reaches 1 one step later than the package's."),
]


PHASES = [
    (lambda s, w, T: (s - w) / (T - w), ""),
    (lambda s, w, T: (s - w) / (T - w - 1), ENDS_AT_0),
    (lambda s, w, T: (s + 1 - w) / (T - w), ENDS_AT_0),
    (lambda s, w, T: (s + 1 - w) / (T - w + 1), "Your cosine is up to one step ahead of the package's."),
]


COSINES = [Form(partial(along, half_cosine, phase), remark) for phase, remark in PHASES]


LINE = "Step 0 gives 1 / warmup_steps, the next 2 / warmup_steps, and so on up to 1: `(step + 1) / warmup_steps`."


HALF = "With p from 0 to 1, `(1 + math.cos(math.pi * p)) / 2` runs from 1 to 0."


PART = "The cosine's part of the way: p = (step - warmup_steps) / (all_steps - warmup_steps), from 0 to 1."


WARM_UP_MISTAKES = [
    *forms([lambda s, w, T: torch.ones_like(s)], "There is no warm-up: the factor is 1 from the first step on.", LINE),
    *forms([lambda s, w, T: half_cosine(s / T), lambda s, w, T: half_cosine(s / (T - 1)),
            lambda s, w, T: half_cosine((s + 1) / T), *(form.curve for form in COSINES)],
           "There is no warm-up: the cosine runs from the first step on.", LINE),
    *forms([lambda s, w, T: 0 * s, lambda s, w, T: (s + 1) // w],
           "Your warm-up stays at 0, where it should rise step by step: does `//` cut off the fraction?",
           "`/` divides with a fraction, `//` without."),
    *forms([lambda s, w, T: (w - s) / w, lambda s, w, T: (w - s - 1) / w, lambda s, w, T: (w - s) / (w + 1)],
           "Your warm-up falls. It starts small, and rises to 1.", LINE),
    *forms([lambda s, w, T: (s + 1) / T, lambda s, w, T: s / T],
           "Your warm-up is divided by `all_steps`: it ends far below 1.", LINE),
    *forms([lambda s, w, T: s + 1, lambda s, w, T: s], "Your warm-up counts the steps: it is not divided.", LINE),
    *forms([lambda s, w, T, warm=warm, fall=fall: warm.curve(s, w, T) * fall(s, w, T) for warm in WARM_UPS for fall in
            (*(form.curve for form in COSINES), lambda s, w, T: half_cosine(s / T),
             lambda s, w, T: half_cosine(s / (T - 1)))],
           "Warm-up and cosine are multiplied: the cosine is at work already in the warm-up.",
           "One or the other: `if step < warmup_steps`, return the warm-up's factor."),
    *forms([lambda s, w, T, warm=warm, bend=bend: bend(warm.curve(s, w, T)) for warm in WARM_UPS for bend in
            (lambda p: 1 - half_cosine(p), lambda p: torch.sin(torch.pi * p / 2), torch.square, torch.sqrt,
             lambda p: 1 - torch.cos(torch.pi * p / 2))],
           "Your warm-up ends where it should, but is bent. A straight line is asked.", LINE),
]  # fmt: skip


COSINE_MISTAKES = [
    *forms([lambda s, w, T: half_cosine(s / T), lambda s, w, T: half_cosine((s + 1) / T),
            lambda s, w, T: half_cosine(s / (T - 1)), lambda s, w, T: half_cosine(s / (T - w))],
           "After the warm-up your curve jumps down: the cosine is counted from step 0, and has gone part of its way "
           "already.", PART),
    *forms([lambda s, w, T: half_cosine((s - w) / T), lambda s, w, T: half_cosine((s - w + 1) / T)],
           "Your cosine is not down at the end: it is stretched over all steps, and the warm-up has used up some.",
           PART),
    *falls(lambda p: half_cosine(2 * p), "Your cosine is down in the middle, and rises again to the end: its angle is "
           "twice too large. π is half a turn.", HALF),
    *falls(lambda p: half_cosine(p / 2), "Your cosine goes only half of its way down, to 0.5: its angle is half of "
           "what it should be.", HALF),
    *falls(lambda p: torch.cos(torch.pi * p), "Your factor falls below 0, towards -1: a cosine runs from 1 to -1.",
           HALF),
    *falls(lambda p: torch.cos(torch.pi * p).clamp(min=0), "Your factor is 0 for the whole second half: a cosine runs "
           "from 1 to -1, and what is below 0 is cut off.", HALF),
    *falls(lambda p: torch.cos(torch.pi * p / 2), "You take a quarter of a cosine: it is steepest at the end. Half a "
           "cosine ends as flat as it begins.", HALF),
    *falls(lambda p: 2 * half_cosine(p), "At the end of the warm-up your factor jumps to 2: 1 + cos runs from 2 to 0.",
           HALF),
    *falls(lambda p: 1 + torch.cos(torch.pi * p) / 2, "Your factor runs from 1.5 to 0.5: only the cosine is halved, "
           "not the sum.", HALF),
    *falls(lambda p: torch.cos(torch.pi * p) / 2, "Your factor runs from 0.5 to -0.5: the cosine is halved, and not "
           "lifted.", HALF),
    *falls(lambda p: 0.5 + torch.cos(torch.pi * p), "Your factor runs from 1.5 to -0.5: the cosine is not halved.",
           HALF),
    *falls(lambda p: 1 - half_cosine(p), "Your cosine rises, from 0 to 1: it is upside down.", HALF),
    *falls(lambda p: half_cosine(180 / torch.pi * p), "Your factor goes up and down: the cosine gets 180 for half a "
           "turn, and reads it as radians.", HALF),
    *falls(lambda p: half_cosine(p / torch.pi), "Your factor falls only to about 0.8: the angle runs to 1, not "
           "to π.", HALF),
    *falls(lambda p: (1 + torch.sin(torch.pi * p)) / 2, "Your factor goes from 0.5 up to 1 and back: a sine, not a "
           "cosine.", HALF),
    *falls(lambda p: 1 - p, "Your factor falls on a straight line. Half a cosine is asked.", HALF),
    *forms([lambda s, w, T: (T - s) / T, lambda s, w, T: (T - s - 1) / T],
           "Your factor falls on a straight line, and is counted from step 0. Half a cosine is asked.", HALF),
    *falls(lambda p: p, "After the warm-up your factor rises from 0 to 1: that is the part of the way gone, p, without "
           "the cosine.", HALF),
    *forms([lambda s, w, T: torch.ones_like(s), lambda s, w, T: ((s - w) // (T - w - 1) == 0).to(s),
            *(partial(along, lambda p, turn=turn: half_cosine(turn * p / 180), phase)
              for phase, _ in PHASES for turn in (1, torch.pi))],
           "After the warm-up your factor stays at 1, or very near it. Is there no cosine yet? Does `//` cut off the "
           "fraction? Or are degrees turned into radians, where there are none?", HALF),
    *forms([lambda s, w, T: 0 * s], "After the warm-up your factor is 0: nothing is learned any more.", HALF),
    *forms([lambda s, w, T: (s + 1) / max(w, 1), lambda s, w, T: s / max(w, 1)],
           "Your warm-up never ends: the factor rises above 1.", "`if step < warmup_steps`: only then the warm-up."),
    *forms([lambda s, w, T, form=form: torch.where(s == w, (w + 1) / max(w, 1), form.curve(s, w, T))
            for form in COSINES],
           "At step `warmup_steps` your factor is above 1: the warm-up lasts one step too long.",
           "The warm-up is `step < warmup_steps`, not `<=`: the steps are counted from 0."),
]  # fmt: skip


SCHEDULES = ((4, 12), (3, 10), (1, 7), (0, 6))  # warmup_steps, all_steps


def judge_schedule(function) -> str | None:
    """A remark if it is right in another way than the package's; raises Wrong unless it is right."""
    remarks = []
    for number, (w, T) in enumerate(SCHEDULES):
        factors, steps = factors_of(function, w, T), torch.arange(T, dtype=torch.float64)
        check_scale(factors, steps, w, T)
        parts = (slice(0, w), WARM_UPS, WARM_UP_MISTAKES), (slice(w, T), COSINES, COSINE_MISTAKES)
        for part, right, wrong in parts:
            fits = [form for form in right if same(factors[part], form.curve(steps[part], w, T))]
            if not fits:
                named = (form for form in wrong if same(factors[part], form.curve(steps[part], w, T)))
                raise explained(next(named, None), factors, steps, part, right[0], number)
            remarks += [fits[0].message] if number == 0 else []
    return " ".join(filter(None, remarks)) or None


def factors_of(function, w: int, T: int) -> Tensor:
    """The factors of all steps: (T,). Raises Wrong if one is no number."""
    factors = []
    for step in range(T):
        try:
            result = call(function, step, w, T)
        except ReaderError as error:
            if w:
                raise
            start = f"Right with a warm-up, but not without one: here `warmup_steps` is 0.\n{error.message}"
            raise ReaderError(start, error.code, "Divide by `warmup_steps` only if `step < warmup_steps`.") from None
        if to_number(result) is None:
            raise Wrong(f"The factor of a step is one number; got {kind(result)}.")
        factors.append(to_number(result))
    return torch.tensor(factors, dtype=torch.float64)


def check_scale(factors: Tensor, steps: Tensor, w: int, T: int) -> None:
    """Raise Wrong if every factor is right but for the same number times it."""
    for warm_up in WARM_UPS:
        for cosine in COSINES:
            curve = torch.cat([warm_up.curve(steps[:w], w, T), cosine.curve(steps[w:], w, T)])
            times = (factors.max() / curve.max()).item()
            if times > 0 and abs(times - 1) > 1e-3 and same(factors, times * curve):
                raise Wrong(
                    f"Your curve has the right form and is {times:g} times as high: its peak must be 1.",
                    "The optimizer multiplies the factor by the learning rate itself.",
                )


def explained(mistake: Form | None, factors: Tensor, steps: Tensor, part: slice, form: Form, number: int) -> Wrong:
    """The known mistake's sentence, or the first step that is off."""
    w, T = SCHEDULES[number]
    if mistake is not None:
        return Wrong(at_another_size(mistake.message, number, SCHEDULES), mistake.hint)
    expected = form.curve(steps[part], w, T)
    first = int((~torch.isclose(factors[part], expected, rtol=1e-4, atol=1e-5)).nonzero()[0])
    floor = floor_of(factors[part], steps[part], w, T) if part.stop == T else None
    if floor is not None:
        return Wrong(
            at_another_size(f"Your cosine falls only to {floor:.3g}, where it should fall to 0.", number, SCHEDULES),
            HALF,
        )
    when, hint = ("in the warm-up", None) if part.start == 0 and w else ("after the warm-up", PART)
    text = (
        f"Step {part.start + first}, {when}, gives {factors[part][first].item():.4g}; {expected[first].item():.4g} is "
        f"expected.\nThis was with warmup_steps={w} and all_steps={T}."
    )
    return Wrong(at_another_size(text, number, SCHEDULES), hint)


def floor_of(factors: Tensor, steps: Tensor, w: int, T: int) -> float | None:
    """The number that these factors of a right cosine are squeezed towards, in place of 0; None if they are not."""
    for form in COSINES:
        curve = form.curve(steps, w, T)
        floor = ((factors - curve).sum() / (1 - curve).sum()).item()
        if 0 < floor < 1 and same(factors, floor + (1 - floor) * curve):
            return floor
    return None


def stops_at_in(error: BaseException | None) -> bool:
    """True if torch's error came from the reader's own `in` or `not in`, and from no function below it."""
    if not isinstance(error, RuntimeError) or not raised_by_reader(error):
        return False
    traceback = error.__traceback__
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    return dis.opname[traceback.tb_frame.f_code.co_code[traceback.tb_lasti]] == "CONTAINS_OP"


SMALL = {"image_size": (6, 4), "patch_size": 2, "num_classes": 5, "embed_dim": 12, "num_heads": 3, "mlp_dim": 20}


# The model and the weight decay: positions in one table, not learned, and in two tables.
CASES = (
    (lambda: VisionTransformer(ViTConfig(**SMALL, depth=2)), 0.3),
    (lambda: VisionTransformer(ViTConfig(**SMALL, depth=1, position="sincos", pool="mean")), 0.05),
    (lambda: VisionTransformer(ViTConfig(**SMALL, depth=3, position="factorized")), 0.1),
)


LOOKS_LIKE = '`[{"params": [...], "weight_decay": weight_decay}, {"params": [...], "weight_decay": 0.0}]`'


USE = "The group of the matrices has the `weight_decay` that the function is given."


BY_KIND = {
    "the norms": "A norm is an `nn.LayerNorm`; in this package every one has `norm` in its name.",
    "the biases": "Their names end in `bias`.",
    "the class token": "It is a bare parameter, with more than one axis: a rule by `ndim` takes it for a matrix.",
    "the positions": "They are bare parameters, with more than one axis: a rule by `ndim` takes them for matrices.",
    "the matrices": "`nn.Linear` and `nn.Conv2d` have them, each as `weight`. The patch projection is a convolution: "
    "its weight has four axes.",
}


def groups_from(function, model: nn.Module, weight_decay: float) -> list[tuple[list, float]]:
    """The groups that the reader's function makes; an error in its `in` is explained."""
    try:
        return groups_of(call(function, model, weight_decay))
    except ReaderError as error:
        if not stops_at_in(error.__context__):
            raise
        text = f"{error.message}\n`in` compares tensors by value, not by identity."
        raise ReaderError(text, error.code, "Compare `id(p)` with the ids of the matrices, or go by names.") from None


def groups_of(result) -> list[tuple[list, float]]:
    """What is in each group, and its weight decay. Raises Wrong if AdamW would not take it."""
    if isinstance(result, dict):
        raise Wrong("A list of groups is asked for; got one dictionary.", f"The result looks like {LOOKS_LIKE}.")
    if isinstance(result, (Tensor, str)) or not hasattr(result, "__iter__"):
        raise Wrong(f"A list of groups is asked for; got {kind(result)}.", f"The result looks like {LOOKS_LIKE}.")
    groups = []
    for number, group in enumerate(call(list, result)):  # here run the reader's generators
        if not isinstance(group, dict):
            raise Wrong(f"Every group is a dictionary; group {number} is {kind(group)}.", f"Like {LOOKS_LIKE}.")
        for key in ("params", "weight_decay"):
            if key not in group:
                default = " AdamW then puts in its own, 0.01." if key == "weight_decay" else ""
                raise Wrong(f'Group {number} has no "{key}".{default}', f"The result looks like {LOOKS_LIKE}.")
        if isinstance(group["params"], set):
            raise Wrong('AdamW takes no set for "params": a set has no order.', "Make it a list.")
        params = group["params"]
        params = [params] if isinstance(params, Tensor) else call(list, params)
        groups += [(params, group["weight_decay"])] if params else []
    check_taken([{"params": params, "weight_decay": decay} for params, decay in groups])
    return [([p[1] if isinstance(p, tuple) else p for p in params], float(decay)) for params, decay in groups]


def check_taken(groups: list[dict]) -> None:
    """Raise Wrong with AdamW's own words if it does not take these groups; what is there twice is for later."""
    seen = set()
    for group in groups:
        params = [p for p in group["params"] if id(p) not in seen]
        seen |= set(map(id, params))
        if any(isinstance(p, str) for p in params):
            raise Wrong('"params" holds names. AdamW takes the parameters themselves.', "Keep `p`, not `name`.")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                torch.optim.AdamW([{**group, "params": params}] if params else [nn.Parameter(torch.zeros(1))])
        except (TypeError, ValueError) as error:
            raise Wrong(f"AdamW does not take your groups: {error}.", f"They look like {LOOKS_LIKE}.") from None


def right_decay(model: nn.Module, weight_decay: float) -> dict[str, float]:
    """The weight decay that is right for each parameter, by name."""
    names = {id(p): name for name, p in model.named_parameters()}
    groups = the_packages_groups(model, weight_decay)
    return {names[id(p)]: group["weight_decay"] for group in groups for p in group["params"]}


def check_groups(
    groups: list[tuple[list, float]], model: nn.Module, weight_decay: float, right: dict[str, float]
) -> None:
    """Raise Wrong unless every parameter is there, once, with the weight decay that is right for it."""
    names = {id(p): name for name, p in model.named_parameters()}
    given = [id(p) for params, _ in groups for p in params]
    if set(given).isdisjoint(names):
        raise Wrong("None of the model's parameters is in your groups. Are there copies, or nothing at all?")
    if not set(given) <= set(names):
        raise Wrong("There are tensors in your groups that are no parameters of the model: copies?")
    missing = [name for key, name in names.items() if key not in given]
    if missing:
        raise Wrong(
            f"In no group, and so never trained: {listed(missing)}.",
            "Every parameter goes into one group: an `else` takes what is left over.",
        )
    twice = [name for key, name in names.items() if given.count(key) > 1]
    if twice:
        raise Wrong(
            f"More than once in your groups: {listed(twice)}. AdamW refuses that, or warns.",
            "`elif` and `else`: what has gone into one group goes into no other.",
        )
    decay = {names[id(p)]: value for params, value in groups for p in params}
    if decay == {name: weight_decay - value for name, value in right.items()}:
        raise Wrong("The groups are exchanged: what should decay does not, and what should not does.")
    if not any(decay.values()):
        raise Wrong("Nothing decays: the weight decay is 0 in every group.", BY_KIND["the matrices"])
    if all(decay.values()):
        where = "all parameters are in one group" if len(groups) == 1 else "all parameters are in groups that decay"
        raise Wrong(f"Everything decays: {where}.", "Two groups: one for the matrices, one with 0.0 for all others.")
    kinds = {name: kind_of(name, model) for name in right}
    for kind_name, hint in BY_KIND.items():
        wrong = [name for name in right if kinds[name] == kind_name and bool(decay[name]) != bool(right[name])]
        if wrong:
            all_of = len(wrong) == list(kinds.values()).count(kind_name)
            which = f"{kind_name.capitalize()}" if all_of else f"Some of {kind_name}"
            verb = "decay, and should not" if not right[wrong[0]] else "do not decay, and should"
            verb = verb.replace("decay,", "decays,", 1) if kind_name == "the class token" else verb
            raise Wrong(f"{which} {verb}: {listed(wrong)}.", hint)
    other = next((value for name, value in decay.items() if value != right[name]), None)
    if other is not None:
        raise Wrong(f"The matrices decay by {other:g}, not by the given `weight_decay`, {weight_decay:g}.", USE)


def kind_of(name: str, model: nn.Module) -> str:
    """One of BY_KIND."""
    layer = model.get_submodule(name.rpartition(".")[0])
    if isinstance(layer, nn.LayerNorm):
        return "the norms"
    if isinstance(layer, (nn.Linear, nn.Conv2d)):
        return "the biases" if name.endswith("bias") else "the matrices"
    return "the class token" if name == "embeddings.class_token" else "the positions"


def listed(names: list[str]) -> str:
    """The first three, and how many more."""
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(f"`{name}`" for name in names[:3]) + more


Batch = tuple[Tensor, Tensor]


def batches_of(ranks: Sequence[Sequence[int]], K: int) -> list[Batch]:
    """Logits (B, K) and labels (B,), batch by batch: the place of each image's label when its logits are sorted."""
    batches = []
    for seed, places in enumerate(ranks):
        logits = random_tensor(len(places), K, seed=seed)
        order = logits.argsort(dim=1, descending=True)
        batches.append((logits, order.gather(1, torch.tensor(places)[:, None])[:, 0]))
    return batches


def with_labels_as_logits(batches: list[Batch]) -> list[Batch]:
    """The same answers; in each batch the first image's largest logit, as a number, is its label."""
    for logits, labels in batches:
        logits[0] = logits[0] - logits[0].max() + labels[0]
    return batches


# The first three tell every known mistake from the others; the right answers are those at place 0. In the third all are
# right: what is 0 there was not cut off.
TRIALS = [
    (
        batches_of([(0, 5, 4, 1, 2, 5), (0, 3, 0, 0, 0, 0), (0,)], K=6),
        batches_of([(2, 0, 0, 1, 0, 3), (0, 4, 5, 0, 5, 1), (1,)], K=6),
        with_labels_as_logits(batches_of([(0,) * 6, (0,) * 5, (0,) * 2], K=6)),
    ),
    (batches_of([(0, 1, 0, 2), (1, 0)], K=3),),
    (batches_of([(0, 1, 0, 0, 3)], K=4),),
]


def hits(logits: Tensor, labels: Tensor, top: int = 1) -> Tensor:
    return (logits.topk(top, dim=1).indices == labels[:, None]).any(dim=1)


def right_share(batches: list[Batch]) -> float:
    return torch.cat([hits(*batch) for batch in batches]).double().mean().item()


def joined(measure: Callable) -> Callable:
    """Measured over all images at once."""
    return lambda batches: measure(*(torch.cat(parts) for parts in zip(*batches, strict=True)))


def by_batch(measure: Callable = lambda x, y: hits(x, y).double().mean()) -> Callable:
    """Measured batch by batch: one number for each."""
    return lambda batches: torch.stack([torch.as_tensor(measure(x, y)).double() for x, y in batches])


def count_of(batches: list[Batch]) -> Tensor:
    return by_batch(lambda x, y: hits(x, y).sum())(batches).sum()


def running(batches: list[Batch]) -> Tensor:
    first, *rest = by_batch()(batches)
    for share in rest:
        first = (first + share) / 2
    return first


def per_class(logits: Tensor, labels: Tensor) -> Tensor:
    right = hits(logits, labels).double()
    return torch.stack([right[labels == label].mean() for label in labels.unique()]).mean()


def by_trial(function: Callable) -> Callable:
    """One number for each list of batches that it is given."""
    return lambda *trials: torch.stack([torch.as_tensor(function(batches)).double().cpu() for batches in trials])


def wrong(function: Callable, message: str, hint: str | None = None) -> Mistake:
    return Mistake(by_trial(function), message, hint)


COUNT = "Count first, divide last: all right answers over all images."


CLASSES = "`logits.argmax(dim=1)`: for each image, a row, the class with the largest logit."


ACCURACY_MISTAKES = [
    wrong(lambda b: by_batch()(b).mean(), "You take the mean of the batches' accuracies. The last batch is short, and "
          "an image in it counts more than the others.", COUNT),
    wrong(lambda b: by_batch()(b)[-1], "This is the accuracy of the last batch alone.", COUNT),
    wrong(lambda b: by_batch()(b)[0], "This is the accuracy of the first batch alone: does `return` stand in the loop?",
          COUNT),
    wrong(lambda b: by_batch()(b[:-1]).mean(), "The last, short batch is left out.", COUNT),
    wrong(count_of, "You get how many answers are right: it is still to be divided by how many images all batches "
          "have together.", COUNT),
    wrong(lambda b: count_of(b) / len(b[-1][1]), "You divide by how many images the last batch has, not all batches.",
          COUNT),
    wrong(lambda b: by_batch(lambda x, y: hits(x, y).sum())(b)[-1], "You get how many answers are right in the "
          "last batch alone.", COUNT),
    wrong(lambda b: by_batch()(b).sum(), "You add up the batches' accuracies: with many batches that is more than 1.",
          COUNT),
    wrong(lambda b: 100 * right_share(b), "That is in percent. A share is asked for, between 0 and 1."),
    wrong(lambda b: 100 * by_batch()(b).mean(), "You take the mean of the batches' accuracies, and in percent. A share "
          "of all images is asked for.", COUNT),
    wrong(lambda b: 1 - right_share(b), "That is the share of wrong answers: the right ones are asked for."),
    wrong(lambda b: count_of(b) / len(b), "You divide by how many batches there are, not by how many images.", COUNT),
    wrong(lambda b: count_of(b) / (len(b) * len(b[0][1])), "You divide as if every batch were as large as the first. "
          "The last one is short.", COUNT),
    wrong(lambda b: count_of(b) / len(b[0][1]), "You divide by how many images the first batch has, not all batches.",
          COUNT),
    wrong(lambda b: by_batch(lambda x, y: hits(x, y).sum())(b)[-1] / sum(len(y) for _, y in b), "Only the last "
          "batch's right answers are counted, over all images: does your count begin anew in each batch?", COUNT),
    wrong(lambda b: count_of(b) / sum(x.numel() for x, _ in b), "You divide by how many logits there are, B·K in each "
          "batch. Each image counts once.", "`len(labels)`, not `logits.numel()`."),
    wrong(running, "You average each batch with what came before: later batches count more.", COUNT),
    wrong(lambda b: by_batch(lambda x, y: hits(x, y).all())(b).mean(), "That is the share of batches in which all "
          "answers are right.", COUNT),
    wrong(joined(per_class), "You average over the classes. Every image counts the same, whatever its class.", COUNT),
    *(wrong(joined(lambda x, y, top=top: hits(x, y, top).double().mean()), f"An answer counts as right if it is among "
            f"the {top} largest logits. Only the largest counts.", CLASSES) for top in (2, 3, 4, 5)),
    wrong(joined(lambda x, y: hits(-x, y).double().mean()), "You take the class with the smallest logit.", CLASSES),
    wrong(lambda b: sum((x.argmax(0) == y).sum() for x, y in b) / sum(len(y) for _, y in b), "`argmax` runs over the "
          "images, not over the classes: for each class it gives an image.", CLASSES),
    wrong(lambda b: sum((x.argmax() == y).sum() for x, y in b) / sum(len(y) for _, y in b), "`argmax` without `dim` "
          "finds one place in the whole batch, not a class for each image.", CLASSES),
    wrong(joined(lambda x, y: x.softmax(1).gather(1, y[:, None]).mean()), "That is the mean probability of the right "
          "class. An answer is right or wrong: it counts 1 or 0.", CLASSES),
    wrong(joined(lambda x, y: x.softmax(1).amax(1).mean()), "That is how sure the model is, on average: the labels are "
          "not looked at.", CLASSES),
    wrong(joined(F.cross_entropy), "That is the cross-entropy, the loss.", CLASSES),
    *(wrong(measure(lambda x, y: (x.amax(1) == y).double().mean()), "You compare the largest logit itself with the "
            "label: its place is the class. `argmax` gives the place.", CLASSES)
      for measure in (joined, lambda f: lambda b: by_batch(f)(b).mean())),
    wrong(lambda b: right_share(b) // 1, "You get 0: does `//` or `int` cut off the fraction?", "`/` keeps it."),
    *(wrong(lambda b, n=n: round(right_share(b), n), f"Right, but rounded to {n} digits. Round only what you print.")
      for n in (2, 3, 4)),
]  # fmt: skip


@exercise(
    hint="Two cases. In the warm-up (`step < warmup_steps`) the factor is `(step + 1) / warmup_steps`. After it, with "
    "p the part of the remaining steps that is over, from 0 to 1, it is `(1 + math.cos(math.pi * p)) / 2`.",
    solution="""
import math


def warmup_cosine(step, warmup_steps, all_steps):
    if step < warmup_steps:
        return (step + 1) / warmup_steps  # 1/warmup_steps, 2/warmup_steps, …, 1
    p = (step - warmup_steps) / (all_steps - warmup_steps)  # 0 → 1
    return (1 + math.cos(math.pi * p)) / 2  # 1 → 0
""",
)
def warmup_cosine(function):
    """`fn(step, warmup_steps, all_steps) -> factor`: up to 1 on a straight line, down to 0 along half a cosine."""
    return judge_schedule(function)


@exercise(
    hint="Matrices decay: the weights of linear layers and of the patch convolution. Biases, norms, class token and "
    "positions do not. Go through `model.named_parameters()`, or through `model.modules()`, and put every parameter "
    "into one of two lists.",
    solution="""
from torch import nn


def parameter_groups(model, weight_decay):
    matrices = [layer.weight for layer in model.modules() if isinstance(layer, (nn.Linear, nn.Conv2d))]
    decays = {id(matrix) for matrix in matrices}
    others = [parameter for parameter in model.parameters() if id(parameter) not in decays]
    return [
        {"params": matrices, "weight_decay": weight_decay},
        {"params": others, "weight_decay": 0.0},
    ]
""",
)
def parameter_groups(function):
    """`fn(model, weight_decay) -> [{"params": …, "weight_decay": …}, …]`: groups for AdamW; only matrices decay."""
    for number, (build, weight_decay) in enumerate(CASES):
        model = build()
        right = right_decay(model, weight_decay)  # before the reader's function, which may freeze what it is given
        try:
            check_groups(groups_from(function, model, weight_decay), model, weight_decay, right)
        except Wrong as wrong:
            if number:
                start = f"Right for the first model, wrong for one with {model.config.position} positions."
                wrong.message = f"{start}\n{wrong.message}"
            raise


@exercise(
    hint="Count: add up the right answers of all batches, `(logits.argmax(dim=1) == labels).sum()`, and the images, "
    "`len(labels)`. Divide once, at the end.",
    solution="""
def accuracy(batches):
    right = images = 0
    for logits, labels in batches:
        right += (logits.argmax(dim=1) == labels).sum().item()
        images += len(labels)
    return right / images
""",
)
def accuracy(function):
    """`fn(batches) -> share`: for batches of (logits (B, K), labels (B,)), the right answers over all images."""
    for number, trial in enumerate(TRIALS):
        shares = torch.stack([share_of(function, batches) for batches in trial])
        expected = by_trial(right_share)(*trial)
        if not same(shares, expected, 1e-7):
            if number == 0:
                recognise(shares, trial, ACCURACY_MISTAKES, 1e-7)
            at = next(i for i, share in enumerate(expected) if not same(shares[i], share, 1e-7))
            sizes = [len(labels) for _, labels in trial[at]]
            text = (
                f"{expected[at]:.4f} expected, got {shares[at]:.4f}. The batches have {', '.join(map(str, sizes))} "
                f"images: {expected[at] * sum(sizes):.0f} of {sum(sizes)} answers are right."
            )
            raise Wrong(at_another_size(text, number, TRIALS))


def share_of(function, batches: list) -> torch.Tensor:
    result = call(function, batches)
    share = to_number(result)
    if share is None:
        each = " One for each batch?" if hasattr(result, "__len__") and len(result) == len(batches) else ""
        raise Wrong(f"The accuracy is one number; got {kind(result)}.{each}")
    return torch.tensor(share, dtype=torch.float64, device="cpu")
