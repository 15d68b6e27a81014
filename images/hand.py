"""Film a hand that draws on the live page, in Chromium or Chrome: `python images/hand.py` makes hand.gif.

It outlines a circle, and then a hole in it.
"""

import base64
import io
import math
import sys
import tempfile
from pathlib import Path

from PIL import Image

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "tests")]  # for the package, and for the tests' browser

from live.browser import Browser  # noqa: E402

from vit_tutorial import load_checkpoint, play  # noqa: E402
from vit_tutorial.plotting.rendering import with_palette  # noqa: E402

POINTER = """
const pointer = document.createElement("i");
pointer.style = "position: fixed; width: 22px; height: 22px; margin: -11px; border-radius: 50%; background: #fff9;"
  + "border: 2px solid #000; pointer-events: none; left: -99px";
document.body.append(pointer);
onpointermove = (event) => Object.assign(pointer.style, { left: `${event.x}px`, top: `${event.y}px` });
document.documentElement.style.colorScheme = "light";
$("status").style.visibility = "hidden"; // it says in words what the bars say
"""
BOX = "(({ x, y, width, height }) => [x, y, width, height])($('picture').getBoundingClientRect())"
MOVES = 24  # for one outline


def outline(radius: float) -> list[tuple[float, float]]:
    """Return a circle as a hand draws it, in shares of the picture."""
    angles = [2 * math.pi * i / MOVES for i in range(MOVES + 1)]
    radii = [radius * (1 + 0.05 * math.sin(2 * angle + 1)) for angle in angles]
    return [(0.5 + r * math.sin(angle), 0.5 - r * math.cos(angle)) for r, angle in zip(radii, angles, strict=True)]


def film(folder: Path) -> tuple[list[Image.Image], list[int]]:
    """Return what the page shows while the hand draws, and for how many milliseconds."""
    page = folder / "page.html"
    page.write_text(play(load_checkpoint("shapes")).html, encoding="utf-8")
    browser, frames, durations = Browser(folder / "profile"), [], []
    browser.open(page.as_uri(), width=760, height=900)
    browser.run(POINTER)
    browser.ask("Emulation.setScrollbarsHidden", hidden=True)
    first = browser.run("document.querySelector('.tools').getBoundingClientRect().y") - 8
    left, top, width, height = browser.run(BOX)
    clip = {"x": 0, "y": first, "width": 760, "height": top + height + 8 - first, "scale": 1}

    def keep(milliseconds: int) -> None:
        png = base64.b64decode(browser.ask("Page.captureScreenshot", clip=clip)["data"])
        frames.append(Image.open(io.BytesIO(png)).convert("RGB"))
        durations.append(milliseconds)

    keep(800)
    for radius, rest in ((0.36, 1500), (0.19, 4000)):
        points = [(left + width * x, top + height * y) for x, y in outline(radius)]
        browser.mouse("mousePressed", *points[0])
        for point in points[1:]:
            browser.mouse("mouseMoved", *point)
            keep(90)
        browser.mouse("mouseReleased", *points[-1])
        keep(rest)
    browser.close()
    return frames, durations


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        frames, durations = film(Path(folder))
    palette = with_palette(frames[-1])
    first, *others = (frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames)
    path = HERE / "hand.gif"
    first.save(path, save_all=True, append_images=others, duration=durations, loop=0)
    print(f"{path.name}: {path.stat().st_size // 1024} KB")


if __name__ == "__main__":
    main()
