"""A reader's own pictures, one folder for each class."""

import os
import re
import shutil

import pytest
from PIL import Image
from torchvision.datasets import ImageFolder

from vit_tutorial.data import image_folder
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
    for i in range(50):
        picture(tmp_path / f"grey/{i:03}.png", (i, i, i), size=(20, 20) if i % 2 else (300, 300))
    assert image_folder(tmp_path, image_size=4).pixels[:, 0, 0, 0].tolist() == list(range(50))


def test_what_jupyter_and_macos_leave_behind_is_no_class_and_no_picture(pets):
    picture(pets / ".ipynb_checkpoints/rex-checkpoint.png")
    picture(pets / "cat/.ipynb_checkpoints/1-checkpoint.png")
    (pets / "cat/._1.png").write_bytes(b"not a picture")
    assert len(image_folder(pets, (6, 8))) == 4
    assert image_folder(pets, (6, 8)).classes == ("cat", "dog")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows asks for a right to make links")
def test_every_format_of_load_photo_is_read_and_other_files_are_counted(pets):
    for ending in ("gif", "jp2", "webp", "tif"):
        picture(pets / f"dog/rex.{ending}", BLUE)
    (pets / "cat/4.heic").write_bytes(b"an iPhone's")
    (pets / "cat/5.HEIC").write_bytes(b"another")
    for number in range(3):
        (pets / f"cat/{number}.jpg").symlink_to(pets / "gone.jpg")
    (pets / "cat/6.jpg").symlink_to(pets / "cat/1.PNG")
    with pytest.warns(UserWarning, match=r"left out of .*pets, .*: 2 \.heic, 1 \.txt, 3 broken$"):
        images = image_folder(pets, (6, 8))
    assert images.labels.tolist() == [0, 0, 0, 0, 1, 1, 1, 1, 1]


# What goes wrong with the folder, the error, and the facts that the message must show.
MISSING = FileNotFoundError
TROUBLES = {
    "an empty class": (lambda pets: (pets / "owl").mkdir(), MISSING, "no pictures in", "owl", ".jpg"),
    "no classes": (lambda pets: [*map(shutil.rmtree, pets.iterdir())], MISSING, "no classes", "pets", "one folder"),
    "not a folder": (shutil.rmtree, MISSING, "no folder", "pets", "relative paths"),
    "no picture": (lambda pets: (pets / "dog/broken.jpg").write_bytes(b"html"), ValueError, "broken.jpg"),
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


# Where the pictures are, and the facts that the error must show: no folder of these is a class.
WRONG_LEVELS = {
    "one folder": (["PetImages/Cat/1.png", "PetImages/Dog/1.png"], "one level too high", "PetImages", "(Cat, Dog)"),
    "two levels": (["a/b/cat/1.png", "a/b/dog/1.png"], "one level too high", "/a"),
    "capitals": (["Train/cat/1.png", "Test/cat/1.png", "Test/dog/2.png"], "Test, Train", "(cat, dog)", "/Test"),
    "other names": (["fold1/x/1.png", "fold2/y/1.png", "holdout/x/1.png"], "fold1, fold2, holdout", "(x, y)"),
    "no classes inside": (["TRAIN/1.png", "Val/1.png"], "TRAIN, Val", "choose one"),
}


@pytest.mark.parametrize("case", WRONG_LEVELS)
def test_a_folder_that_is_too_high_or_split_is_not_taken_for_classes(case, tmp_path):
    paths, *facts = WRONG_LEVELS[case]
    for path in paths:
        picture(tmp_path / path)
    with pytest.raises(ValueError, match=re.escape(str(tmp_path))) as caught:
        image_folder(tmp_path, 8)
    told = str(caught.value).replace("\\", "/")
    assert not [fact for fact in facts if fact not in told], told


def test_of_a_class_of_two_pictures_one_is_kept_for_the_test_and_of_one_none_can_be(pets):
    with pytest.raises(ValueError, match="the class 'dog' has 1 image: a split needs two"):
        train_and_test(pets, 8, 0.2)
    picture(pets / "dog/ada.png", GREEN)
    for share, counts in ((0.01, [1, 1]), (0.6, [2, 1]), (0.99, [2, 1])):
        train, test = train_and_test(pets, 8, share)
        assert test.labels.bincount().tolist() == counts
        assert len(train) + len(test) == 5
    for share in (0.0, 1.0, 20.0):
        with pytest.raises(ValueError, match="share must be"):
            train_and_test(pets, 8, share)


# The class folders in each folder of --data, and the facts that the error must show.
FOLDERS = {
    "another name in test": ({"train": "bee cow", "test": "ant bee"}, "the same classes", "'cow'", "'ant'"),
    "the folder above": ({"here/train": "ant bee"}, "/train': --data must hold train and test", "--split 0.2"),
    "no test": ({"train": "ant", "val": "ant"}, "/test': --data must hold train and test", "even with --validate"),
}


@pytest.mark.parametrize("trouble", FOLDERS)
def test_folders_that_do_not_fit_together(trouble, tmp_path):
    """Compared by place, every bee would be counted as a mistake."""
    splits, *facts = FOLDERS[trouble]
    for split, names in splits.items():
        for name in names.split():
            picture(tmp_path / split / name / "1.png")
    with pytest.raises((ValueError, FileNotFoundError)) as caught:
        train_and_test(tmp_path, 8)
    told = str(caught.value).replace("\\", "/")
    assert not [fact for fact in facts if fact not in told], told
