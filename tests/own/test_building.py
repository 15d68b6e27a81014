"""A model of the reader's parts does what ours does, or ours stays in their place, and the line says so."""

import subprocess
import sys
from copy import deepcopy
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from PIL import ExifTags, Image
from published import randomize
from torch import nn
from torch.testing import assert_close

from vit_tutorial import ImageSet, VisionTransformer, ViTConfig, assemble, change_resolution, load_checkpoint, take
from vit_tutorial.adapting import replace_head
from vit_tutorial.analysis import class_attention, cost_by_part, mask_heads, position_similarity, record_attention
from vit_tutorial.data import load_photo
from vit_tutorial.data.photo import as_tensor
from vit_tutorial.own import keeping
from vit_tutorial.own.source import needed, pieces
from vit_tutorial.saving import load_model, save_model
from vit_tutorial.training import Recipe, fit

STYLED = Path(__file__).with_name("styled.py").read_text(encoding="utf-8")
CLOSE = {"atol": 1e-5, "rtol": 1e-4}


@pytest.fixture
def write(monkeypatch, tmp_path):
    """Write the file of a reader, who sits in a notebook."""
    path = tmp_path / "my_vit.py"
    monkeypatch.setattr(keeping, "readers_file", lambda: path)
    return path.write_text


@pytest.fixture
def model():
    config = ViTConfig(12, 4, 3, num_classes=5, embed_dim=12, depth=2, num_heads=3, mlp_dim=20)
    return randomize(VisionTransformer(config)).eval()


@pytest.fixture
def images():
    return torch.randn(2, 3, 12, 12)


def parts_of(names: str) -> str:
    """The file with these classes alone, and what they use."""
    there = pieces(STYLED)
    used = needed([piece for piece in there if piece.defines & {*names.split()}], there)
    return "\n\n\n".join(piece.source for piece in there if piece in used or piece.is_import)


def test_nothing_is_kept_yet(write, model, capsys):
    assert assemble(model) is model
    assert capsys.readouterr().out == "yours: nothing yet; ours: embeddings, attention, MLP, block, whole\n"


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"q @ k.mT": "k @ q.mT"},  # what is called `query` is the keys
        {"self.query(tokens)": "F.linear(tokens, *self.query.parameters())"},  # a layer that is not called
        {
            "query = nn.Linear(embed_dim, d)": "qkv = nn.Linear(embed_dim, 3 * d)",  # in each head one layer
            "self.query(tokens), self.key(tokens), self.value(tokens)": "self.qkv(tokens).chunk(3, -1)",
            "        self.key = nn.Linear(embed_dim, d)\n        self.value = nn.Linear(embed_dim, d)\n": "",
        },
        {  # methods and attributes of their own, in block and whole
            "return z + self.mlp(": "return z + self.branch(",
            "dim, mlp_dim)\n\n": "dim, mlp_dim)\n        self.scale = 1.0\n\n    def branch(self, z):\n"
            "        return self.scale * self.mlp(z)\n\n",
            "z = self.embeddings(images)": "z = self.tokens(images)",
            "nn.Identity()\n": "nn.Identity()\n\n    def tokens(self, x):\n        return self.embeddings(x)\n",
        },
    ],
)
def test_a_model_of_all_their_parts_is_ours_in_logits_maps_and_gradients(write, model, images, changes, capsys):
    text = STYLED
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    write(text)
    theirs = assemble(model)
    assert capsys.readouterr().out == "yours: embeddings, attention, MLP, block, whole; ours: nothing\n"
    assert [type(theirs).__name__, type(theirs.encoder[1]).__name__] == ["MyVisionTransformer", "MyEncoderBlock"]
    assert_close(theirs(images), model(images), **CLOSE)
    for measure in (record_attention, lambda m: mask_heads(m, {0: 1, 1: [0, 2]})):
        with measure(theirs) as mine, measure(model) as ours:
            assert_close(theirs(images), model(images), **CLOSE)
        assert mine is ours is None or all(torch.allclose(a, b, atol=1e-5) for a, b in zip(mine, ours, strict=True))
    assert_close(class_attention(theirs, images, [1, 4]), class_attention(model, images, [1, 4]), **CLOSE)
    assert_close(position_similarity(theirs), position_similarity(model), **CLOSE)
    assert cost_by_part(theirs, images) == cost_by_part(model, images)
    for each in (theirs, model):
        each(images).square().sum().backward()
    right = {name: weight.grad for name, weight in model.named_parameters()}
    assert_close({name: weight.grad for name, weight in theirs.named_parameters()}, right, **CLOSE)


def test_its_weights_have_our_names_wherever_they_go(write, model, images, tmp_path):
    write(STYLED)
    theirs = assemble(model)
    assert {name: weight.shape for name, weight in theirs.state_dict().items()} == {
        name: weight.shape for name, weight in model.state_dict().items()
    }
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.add_(0.1)  # as training does
    saved = load_model(save_model(theirs, tmp_path / "model.safetensors"))
    assert type(saved) is VisionTransformer
    assert_close(saved(images), theirs(images), **CLOSE)
    assert_close(assemble(saved)(images), theirs(images), **CLOSE)
    larger = torch.randn(2, 3, 20, 20)
    assert_close(change_resolution(theirs, 20)(larger), change_resolution(saved, 20)(larger), **CLOSE)
    assert replace_head(theirs, 7)(images).shape == (2, 7)
    state = theirs.state_dict()
    state["encoder.0.mlp.expand.weight"] = state["encoder.0.mlp.expand.weight"].T
    with pytest.raises(RuntimeError, match="expand"):
        theirs.load_state_dict(state)


def test_with_a_new_head_it_trains_is_saved_and_goes_on_from_its_checkpoint(write, model, images, tmp_path):
    write(STYLED)
    start = replace_head(assemble(model), 2)
    pictures = ImageSet((images * 60 + 128).clamp(0, 255).byte(), torch.tensor([0, 1]), ("cat", "dog"))
    whole, again = deepcopy(start), deepcopy(start)
    for each in (whole, again):  # the second finds the run of the first, whose last epoch is over
        fit(each, pictures, Recipe(epochs=2, batch_size=2, learning_rate=1e-2), folder=tmp_path)
    assert torch.equal(again(images), whole(images))
    loaded = load_model(save_model(again, tmp_path / "model.safetensors"))
    assert_close(loaded(images), again(images), **CLOSE)
    for wrap in (nn.Sequential, lambda module: torch.compile(module, backend="eager")):
        first, second = wrap(again), wrap(deepcopy(start))
        second.load_state_dict(first.state_dict())
        assert_close(second(images), again(images), **CLOSE)


@pytest.mark.parametrize("part", ["MyEmbeddings", "MySelfAttention", "MyMlp", "MySelfAttention MyMlp MyEncoderBlock"])
def test_some_of_their_parts_stand_among_ours(write, model, images, part, capsys):
    write(parts_of(part))
    before = torch.get_rng_state()
    assert_close(assemble(model)(images), model(images), **CLOSE)
    assert torch.equal(torch.get_rng_state(), before)
    yours, _, ours = capsys.readouterr().out.partition(";")
    assert yours.count(",") == part.count(" ")
    assert "nothing" not in yours
    assert "whole" in ours


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (".softmax(-1)", ".softmax(-2)", "with our weights it computes something else"),
        ("nn.Linear(embed_dim, d)", "nn.Linear(embed_dim, d, bias=False)", "it has no `qkv.bias`"),
        ("return z + self.mlp", "return z + F.dropout(z, 0.1, self.training) - z + self.mlp", "or has dropout"),
        ("class MySelfAttention", "broken = [][0]\n\n\nclass MySelfAttention", "IndexError"),
        ("self.out(", "self.nothing(", "AttributeError"),
        ("self.norm1", "self.ln1", '"encoder.0.ln1.weight"'),
        ("self.mlp", "self.ffn", "block: yours is not used, because AttributeError, 'MyEncoderBlock' object has no"),
    ],
)
def test_what_computes_something_else_stays_ours_and_is_told(write, model, images, old, new, why, capsys):
    assert old in STYLED
    write(STYLED.replace(old, new))
    assert_close(assemble(model)(images), model(images), **CLOSE)
    said = capsys.readouterr().out
    assert said.count("yours is not used") == ("Without `my_vit.py`" not in said)  # the others stay
    assert "; ours: nothing\n" not in said
    assert why in said


def test_a_part_of_theirs_knows_no_other_configuration(write, capsys):
    write(STYLED)
    model = VisionTransformer(ViTConfig(8, 4, 3, 5, 12, 1, 3, 20, position="sincos"))
    assert assemble(model) is model
    assert "learned positions and no dropout, and this model is another one" in capsys.readouterr().out


def test_a_function_is_taken_if_it_passes_today(write, capsys):
    write(STYLED)
    assert take("my_patchify").__module__ == "my_vit"
    write(STYLED.replace("F.unfold(images, P, stride=P)", "2 * F.unfold(images, P, stride=P)"))
    assert take("my_patchify").__module__ != "my_vit"
    assert "my_patchify: ours. Yours:" in capsys.readouterr().out


def test_the_file_cuts_out_of_a_photo_by_itself_what_the_package_does(write, monkeypatch, tmp_path, capsys):
    theirs = parts_of("MyEmbeddings MySelfAttention MyEncoderBlock").replace("F.unfold(images", "cut(images")
    written_inline = "nn.Sequential(nn.Linear(embed_dim, mlp_dim), nn.GELU(), nn.Linear(mlp_dim, embed_dim))"
    theirs = theirs.replace("MyMlp(embed_dim, mlp_dim)", written_inline)
    write("from vit_tutorial import patchify as cut\n" + theirs.replace(", stride=self.P).transpose(1, 2)", ")"))
    monkeypatch.chdir(tmp_path)
    dino, photo = load_checkpoint("dinov2-s14"), load_photo("eileen_collins", 518)
    with torch.no_grad():
        tokens = dino.forward_features(dino.card.normalise(photo[None]))[0, 1:]  # (37·37, D)
    w = tokens[30 * 37 + 12] - tokens[3]  # her suit, and beside her
    monkeypatch.setenv("VIT_TUTORIAL_STILL", "1")
    keeping.finish("eileen_collins", w)
    assert not (tmp_path / "runs").exists()  # the tests of the notebook leave a reader's alone
    monkeypatch.delenv("VIT_TUTORIAL_STILL")
    given, seen = keeping.finish("eileen_collins", w)
    said = capsys.readouterr().out
    assert "2 of its 5 parts are yours\n  `MyEmbeddings` is not used, because it needs `vit_tutorial`.\n" in said
    assert "22,047,361 parameters, 1369 tokens: seen.png\n" in said
    scores = ((tokens - tokens.mean(dim=0)) @ w).reshape(1, 1, 37, 37)
    kept = F.interpolate(scores, (518, 518), mode="bilinear")[0, 0] > 0
    assert 0.2 < kept.float().mean() < 0.8
    assert ((seen - given).abs().amax(dim=0) < 0.01).eq(kept).float().mean() > 0.99  # the rest is green

    lying = Image.fromarray((255 * given).byte().permute(2, 1, 0).numpy())
    exif = lying.getexif()
    exif[ExifTags.Base.Orientation] = 5  # rows are columns
    lying.save("lying.png", exif=exif)
    alone = "import runpy, sys; sys.modules['vit_tutorial'] = None; runpy.run_path('runs/my_vit.py', None, '__main__')"
    for photo in (["lying.png"], []):  # without a name it takes the photo of the lesson, which lies beside it
        Path("seen.png").unlink(missing_ok=True)
        subprocess.run([sys.executable, "-c", alone, *photo], check=True)
        assert torch.equal(as_tensor(Image.open("seen.png")) / 255, seen)


def test_a_file_with_an_error_is_told_so_at_the_end_too(write, capsys):
    write("def broken(:\n")
    text, good, told = keeping.completed(keeping.usable_text(), keeping.SMALL)
    assert ("class MyVisionTransformer" in text, good, told) == (True, set(), [])
    assert capsys.readouterr().out.startswith("Without `my_vit.py`: the file stops with SyntaxError")
