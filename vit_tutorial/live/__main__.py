"""Write a page with a model to play with: python -m vit_tutorial.live page.html [--weights cifar10]."""

import argparse

from ..files import as_path, write_atomically
from ..pretrained import load_checkpoint
from .page import play


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m vit_tutorial.live", description=__doc__)
    parser.add_argument("page", help="the file to write; a browser opens it by a double click")
    parser.add_argument("--weights", default="shapes", choices=("shapes", "cifar10"))
    asked = parser.parse_args()
    page = as_path("page", asked.page)
    write_atomically(page, play(load_checkpoint(asked.weights)).html.encode())
    print(f"{page}: {page.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
