"""Where images come from: a photo, the built-in shapes, CIFAR-10, a folder of your own."""

from .cifar10 import cifar10
from .folder import image_folder
from .images import ImageSet
from .photo import load_photo
from .shapes import Shapes

__all__ = ["ImageSet", "Shapes", "cifar10", "image_folder", "load_photo"]
