"""Where images come from: a photo, the built-in shapes, CIFAR-10, a folder of your own."""

from .cifar10_files import cifar10
from .image_set import ImageSet
from .photo import load_outline, load_photo
from .picture_folder import image_folder
from .shapes import Shapes
