"""The forward pass in JavaScript is the package's: the same logits and attention weights, whatever is changed."""

import json
from contextlib import nullcontext

import pytest
import torch
from py_mini_racer import MiniRacer

from vit_tutorial import Shapes, VisionTransformer, ViTConfig, load_checkpoint, patchify, play, unpatchify
from vit_tutorial.analysis import mask_heads, readout, record_attention
from vit_tutorial.live.page import source, tensors_of
from vit_tutorial.model_card import ModelCard

TOLERANCE = 1e-4
COUNT = 12  # two for each of the changes


class Engine:
    """V8 with the page's `model.js` and one model. What comes out is copied as bytes: JSON would take as long again."""

    def __init__(self, model):
        self.racer, data = MiniRacer(), play(model).data()
        halves = torch.cat([tensor.flatten() for tensor in tensors_of(model).values()]).half().view(torch.int16)
        self.racer.eval(source("model.js"))
        self.racer.eval(f"const model = loadModel(Uint16Array.from({halves.tolist()}), {json.dumps(data['shapes'])})")
        self.racer.eval(f"const config = {json.dumps(data['config'])}, blind = withoutPositions(model); 0")
        self.racer.eval("let kept; const bytes = (rows) => Float32Array.from(rows.flatMap((row) => [...row])).buffer")
        self.config = model.config

    def __call__(self, image, order=None, covered=(), positions=True, off=None):
        """Return the logits after each block (L, K), and the attention weights (L, h, T, T)."""
        order = list(range(self.config.num_patches)) if order is None else order
        moved = f"rearrange(Uint8Array.from({image.flatten().tolist()}), {order}, {list(covered)}, config)"
        run = f"visionTransformer({moved}, {'model' if positions else 'blind'}, config, {json.dumps(off or {})})"
        # JavaScript keeps what Python copies, or its garbage collector may come first.
        self.racer.eval(f"{{ const {{ logits, maps }} = {run}; kept = [bytes(logits), bytes(maps.flat(2))] }} 0")
        copies = (bytearray(self.racer.eval(f"kept[{i}]")) for i in range(2))
        logits, maps = (torch.frombuffer(values, dtype=torch.float32) for values in copies)
        c = self.config
        return logits.view(c.depth, -1), maps.view(c.depth, c.num_heads, c.num_tokens, c.num_tokens)


@torch.no_grad()
def in_half(model):
    """Round the weights as the page stores them."""
    for weight in model.parameters():
        weight.copy_(weight.half())
    return model.eval()


@torch.no_grad()
def by_torch(model, image, order=None, covered=(), positions=True, off=None):
    patches = patchify(image[None], 4)
    mean = (255 * torch.tensor(model.card.mean)).round().byte().repeat_interleave(16)
    patches[0, list(covered)] = mean
    if order is not None:
        patches = patches[:, order]
    inputs = model.card.normalise(unpatchify(patches, 4, tuple(image.shape[1:])))
    table = model.embeddings.position.table
    kept = table.clone()
    table.mul_(positions)
    masked = mask_heads(model, {int(layer): heads for layer, heads in off.items()}) if off else nullcontext()
    with masked, record_attention(model) as maps:
        logits = model(inputs)
    table.copy_(kept)
    return logits[0], torch.cat(maps)


@pytest.fixture(scope="module", params=["shapes", "cifar10"])
def pair(request):
    model = in_half(load_checkpoint(request.param))
    torch.manual_seed(0)
    noise = torch.randint(256, (COUNT, 3, 32, 32), dtype=torch.uint8)
    return model, Engine(model), Shapes(COUNT, 28, seed=1).pixels if request.param == "shapes" else noise


def changes(model, i):
    """Return what can be changed of picture i: nothing, patches shuffled or covered, positions off, heads off, all."""
    N, h = model.config.num_patches, model.config.num_heads
    order = torch.randperm(N, generator=torch.Generator().manual_seed(i)).tolist()
    off = {str(i % model.config.depth): [i % h], "1": [(i + 1) % h, (i + 2) % h]}
    some = {"order": order, "positions": False, "off": off, "covered": [i % N, 3 * i % N]}
    return [{}, *({name: value} for name, value in some.items()), some]


def test_all_logits_and_weights_are_the_packages_whatever_is_changed(pair):
    model, engine, images = pair
    for i, image in enumerate(images):
        change = changes(model, i)[i % 6]
        logits, maps = engine(image, **change)
        expected, weights = by_torch(model, image, **change)
        assert (logits[-1] - expected).abs().max() < TOLERANCE
        assert (maps - weights).abs().max() < TOLERANCE


def test_the_answer_after_each_block_is_the_heads_reading_of_the_class_token(pair):
    model, engine, images = pair
    expected = readout(model, model.card.normalise(images[:1]))[1:, 0]
    assert (engine(images[0])[0] - expected).abs().max() < TOLERANCE


@pytest.mark.parametrize(
    "options", [{"position": "factorized", "gelu": "tanh"}, {"position": "none", "patch_size": (4, 8)}], ids=str
)
def test_other_configurations_of_the_package_run_in_the_page_too(options):
    config = ViTConfig(16, **{"patch_size": 4, "num_classes": 3, "embed_dim": 16, "depth": 2, "num_heads": 2} | options)
    model = VisionTransformer(config)
    model.card = ModelCard(("a", "b", "c"), (0.4, 0.5, 0.6), (0.2, 0.3, 0.0))
    for weight in model.parameters():
        torch.nn.init.normal_(weight, std=0.3)
    in_half(model)
    engine, image = Engine(model), (torch.rand(3, 16, 16) * 255).byte()
    table = model.embeddings.position()
    with torch.no_grad():
        expected = model(model.card.normalise(image[None]))[0]
    assert table.shape == (config.num_tokens, 16)
    assert (engine(image)[0][-1] - expected).abs().max() < TOLERANCE
