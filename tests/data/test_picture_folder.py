"""A reader's own pictures, one folder for each class."""

import shutil

import pytest
import torch
from PIL import Image
from torchvision.datasets import ImageFolder

from vit_tutorial.data import image_folder, load_photo
from vit_tutorial.data.picture_folder import train_and_test

pytestmark = pytest.mark.filterwarnings("ignore:left out of")  # the list of names in `pets`

RED, GREEN, BLUE = (255, 0, 0), (0, 255, 0), (0, 0, 255)


def picture(path, colour=RED, size=(8, 6), **options):
    """One colour all over; Pillow's sizes are (width, height)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, colour).save(path, **options)
    return path


@pytest.fixture
def pets(tmp_path):
    """Two cats and a dog. The dog's folder is made first, and a cat's lies one folder deeper."""
    picture(tmp_path / "pets/dog/rex.png", BLUE)
    picture(tmp_path / "pets/cat/tom.png", GREEN)
    picture(tmp_path / "pets/cat/1.PNG", RED)
    picture(tmp_path / "pets/cat/old/3.png", RED)
    (tmp_path / "pets/cat/names.txt").write_text("not a picture, and not counted")
    return tmp_path / "pets"


def test_classes_and_pictures_are_in_torchvisions_order(pets):
    images, theirs = image_folder(pets, (6, 8)), ImageFolder(pets)
    assert images.classes == tuple(theirs.classes) == ("cat", "dog")
    assert images.labels.tolist() == theirs.targets == [0, 0, 0, 1]
    assert images.pixels.shape == (4, 3, 6, 8)
    for pixels, (their_picture, _) in zip(images.pixels, theirs, strict=True):
        assert pixels[:, 2, 3].tolist() == list(their_picture.getpixel((3, 2)))


def test_many_pictures_keep_their_places(tmp_path):
    """Several threads read them, and finish in any order."""
    for i in range(200):
        picture(tmp_path / f"grey/{i:03}.png", (i, i, i), size=(20, 20) if i % 2 else (300, 300))
    assert image_folder(tmp_path, image_size=4).pixels[:, 0, 0, 0].tolist() == list(range(200))


@pytest.mark.parametrize("size", [4, (3, 9)])
def test_each_becomes_what_load_photo_makes_of_it(size, tmp_path):
    path = tmp_path / "all/scene/photo.png"
    path.parent.mkdir(parents=True)
    noise = torch.randint(256, (30, 50, 3), dtype=torch.uint8)
    exif = Image.Exif()
    exif[0x0112] = 6  # lies on its side, as a telephone's photo does
    Image.fromarray(noise.numpy()).save(path, exif=exif)
    assert torch.equal(image_folder(tmp_path / "all", size)[0][0], load_photo(path, size))


def test_what_jupyter_and_macos_leave_behind_is_no_class_and_no_picture(pets):
    picture(pets / ".ipynb_checkpoints/rex-checkpoint.png")
    picture(pets / "cat/.ipynb_checkpoints/1-checkpoint.png")
    (pets / "cat/._1.png").write_bytes(b"not a picture")
    assert len(image_folder(pets, (6, 8))) == 4
    assert image_folder(pets, (6, 8)).classes == ("cat", "dog")


def test_every_format_of_load_photo_is_read_and_other_files_are_counted(pets):
    for ending in ("gif", "jp2", "webp", "tif"):
        picture(pets / f"dog/rex.{ending}", BLUE)
    (pets / "cat/4.heic").write_bytes(b"an iPhone's")
    (pets / "cat/5.HEIC").write_bytes(b"another")
    with pytest.warns(UserWarning, match=r"left out of .*pets, .*: 2 \.heic, 1 \.txt$"):
        images = image_folder(pets, (6, 8))
    assert images.labels.tolist() == [0, 0, 0, 1, 1, 1, 1, 1]


def name_as_splits(pets) -> None:
    (pets / "dog").rename(pets / "test")
    (pets / "cat").rename(pets / "train")


# What goes wrong with the folder, the error, and the facts that the message must show.
MISSING = FileNotFoundError
TROUBLES = {
    "an empty class": (lambda pets: (pets / "owl").mkdir(), MISSING, "no pictures in", "owl", ".jpg"),
    "no classes": (lambda pets: [*map(shutil.rmtree, pets.iterdir())], MISSING, "no classes", "pets", "one folder"),
    "not a folder": (shutil.rmtree, MISSING, "no folder", "pets", "relative paths"),
    "no picture": (lambda pets: (pets / "dog/broken.jpg").write_bytes(b"html"), ValueError, "broken.jpg"),
    "splits": (name_as_splits, ValueError, "test, train", "choose one"),
}


@pytest.mark.parametrize("trouble", TROUBLES)
def test_each_trouble_has_one_error_that_says_where(trouble, pets):
    make, kind, *facts = TROUBLES[trouble]
    make(pets)
    with pytest.raises(kind) as caught:
        image_folder(pets, 6)
    assert type(caught.value) is kind
    assert not [fact for fact in facts if fact not in str(caught.value)], str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.__cause__ is None


# The class folders in each folder of --data, and the facts that the error must show.
FOLDERS = {
    "another name in test": ({"train": "bee cow", "test": "ant bee"}, "the same classes", "'cow'", "'ant'"),
    "a single class": ({"train": "ant", "test": "ant"}, "at least two", "/train has ('ant',)"),
    "the folder above": ({"here/train": "ant bee"}, "/train': --data must hold train and test"),
    "no test": ({"train": "ant", "val": "ant"}, "/test': --data must hold train and test", "even with --validate"),
}


@pytest.mark.parametrize("trouble", FOLDERS)
def test_folders_that_do_not_fit_together(trouble, tmp_path):
    """Compared by place, every bee would be counted as a mistake; of a single class, every picture is right."""
    splits, *facts = FOLDERS[trouble]
    for split, names in splits.items():
        for name in names.split():
            picture(tmp_path / split / name / "1.png")
    with pytest.raises((ValueError, FileNotFoundError)) as caught:
        train_and_test(tmp_path, 8)
    told = str(caught.value).replace("\\", "/")
    assert not [fact for fact in facts if fact not in told], told
