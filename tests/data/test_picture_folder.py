"""A reader's own pictures, one folder for each class."""

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
    picture(tmp_path / "pets/.ipynb_checkpoints/rex-checkpoint.png")  # left behind by Jupyter, and by macOS
    picture(tmp_path / "pets/cat/.ipynb_checkpoints/1-checkpoint.png")
    (tmp_path / "pets/cat/._1.png").write_bytes(b"not a picture")
    return tmp_path / "pets"


def test_classes_and_pictures_are_in_torchvisions_order_without_what_is_hidden(pets):
    images = image_folder(pets, (6, 8))
    for path in (pets / ".ipynb_checkpoints", pets / "cat/.ipynb_checkpoints"):
        shutil.rmtree(path)
    (pets / "cat/._1.png").unlink()
    theirs = ImageFolder(pets)
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


def test_every_format_of_load_photo_is_read_and_other_files_are_counted(pets):
    for ending in ("gif", "jp2", "webp", "tif"):
        picture(pets / f"dog/rex.{ending}", BLUE)
    (pets / "cat/4.heic").write_bytes(b"an iPhone's")
    (pets / "cat/5.HEIC").write_bytes(b"another")
    with pytest.warns(UserWarning, match=r"left out of .*pets, .*: 2 \.heic, 1 \.txt$"):
        images = image_folder(pets, (6, 8))
    assert images.labels.tolist() == [0, 0, 0, 1, 1, 1, 1, 1]


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
    "one folder": ("PetImages/Cat PetImages/Dog", "one level too high", "PetImages, and", "Cat, Dog"),
    "two levels": ("a/b/cat a/b/dog", "one level too high", "/a"),
    "capitals": ("Train/cat Test/cat Test/dog", "Test, Train, and", "cat, dog", "/Test"),
    "other names": ("fold1/x fold2/y holdout/x", "fold1, fold2, holdout, and", "x, y"),
    "no classes inside": ("TRAIN Val", "TRAIN, Val", "choose one"),
}
# Where they are in the folder of --data. Compared by place, every bee would be counted as a mistake.
MISFITS = {
    "another name in test": ("train/bee train/cow test/ant test/bee", "the same classes", "'cow'", "'ant'"),
    "the folder above": ("here/train/ant here/test/ant", "no folders train and test in", "--split 0.2", "relative"),
    "no test": ("train/ant val/ant", "no folders train and test in", "--split 0.2"),
}


@pytest.mark.parametrize("case", [*WRONG_LEVELS, *MISFITS])
def test_folders_that_are_no_classes_or_no_two_parts_are_refused(case, tmp_path):
    folders, *facts = (WRONG_LEVELS | MISFITS)[case]
    for folder in folders.split():
        picture(tmp_path / folder / "1.png")
    load = image_folder if case in WRONG_LEVELS else train_and_test
    with pytest.raises((ValueError, FileNotFoundError)) as caught:
        load(tmp_path, 8)
    told = str(caught.value).replace("\\", "/")
    assert not [fact for fact in facts if fact not in told], told
