"""The page in Chromium, by mouse and by keyboard. Skipped where no browser is, but not in the workflow."""

import math
import os
import subprocess
import sys

import pytest
import torch

from vit_tutorial import load_checkpoint, play
from vit_tutorial.analysis import record_attention

from .browser import Browser, find_browser, until

if find_browser() is None and "VIT_TUTORIAL_BROWSER" not in os.environ:
    pytest.skip("no browser: install Chromium or Chrome to test the page itself", allow_module_level=True)


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    command = [sys.executable, "-m", "vit_tutorial.live", str(folder / "shapes.html")]
    subprocess.run(command, check=True, capture_output=True)
    (folder / "cifar10.html").write_text(play(load_checkpoint("cifar10")).html, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    browser = Browser(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


@pytest.fixture
def page(browser, pages):
    browser.open((pages / "shapes.html").as_uri())
    yield browser
    assert browser.problems == []
    assert {address.rpartition("/")[2] for address in browser.requests} <= {"shapes.html", "cifar10.html"}


def on_picture(page, points):
    """Scroll to the picture, and return where on the screen these points of it are, from 0 to 1."""
    left, top, width, height = page.run(
        "(() => { $('picture').scrollIntoView({block: 'center'}); const b = $('picture').getBoundingClientRect();"
        "return [b.x, b.y, b.width, b.height] })()"
    )
    return [(left + width * x, top + height * y) for x, y in points]


def draw(page, points):
    """Draw an outline through these points, from 0 to 1, with the mouse; return the model's answer."""
    page.drag(on_picture(page, points))
    return page.run("classes[best(result.answer)]")


def polar(radii):
    """Return the corners at these distances from the centre of the picture, in equal angles, the first at the top."""
    angles = [2 * math.pi * i / len(radii) for i in range(len(radii))]
    return [(0.5 + r * math.sin(angle), 0.5 - r * math.cos(angle)) for r, angle in zip(radii, angles, strict=True)]


CIRCLE, HOLE, STAR = polar([0.36] * 16), polar([0.2] * 16), polar([0.38, 0.17] * 5)


def test_a_drawn_circle_is_called_a_circle_and_the_bars_move_while_it_is_drawn(page):
    circle = on_picture(page, CIRCLE)
    before = page.run("$('bars').innerHTML")
    page.mouse("mousePressed", *circle[0])
    for point in circle[1:]:
        page.mouse("mouseMoved", *point)
    half = page.run("$('bars').innerHTML")
    page.mouse("mouseReleased", *circle[-1])
    assert before != half
    assert "circle" in page.run("document.querySelector('#bars .first').textContent")
    assert draw(page, HOLE) == "ring", "a second outline makes a hole"


def test_the_page_says_what_it_is_and_answers_nothing_for_an_empty_sheet(page):
    told = page.run("document.querySelector('header').innerText")
    assert "28×28 pixels into 49 patches, and says which of 8 shapes it shows: circle, ring, " in told
    values = "[...document.querySelectorAll('#bars span:last-child')].map((value) => value.textContent).join('')"
    assert page.run(values) == "–" * 8
    assert not page.run("document.querySelector('#bars .first') || $('blocks').innerText.includes('%')")
    assert page.run("$('status').textContent") == "An empty sheet. Draw a shape, and watch the bars."
    assert draw(page, STAR) == "star"
    assert page.run("$('status').textContent").startswith("Outline drawn. It says star, ")
    assert "%" in page.run("$('blocks').innerText")
    page.click("#undo")
    assert page.run("$('status').textContent") == "Undone."
    assert page.run(values) == "–" * 8


@torch.no_grad()
def test_what_is_shown_of_a_patch_is_its_own_row_of_the_attention(page):
    """Its maps, against the package's own forward pass."""
    page.click("#pictures button:nth-child(3)")
    page.click("#look + span")
    page.click("#picture")  # its centre: row 3, column 3, token 25
    page.mouse("mouseMoved", 1, 1)
    assert page.run("$('query').textContent") == "Where row 3, column 3 looks"
    model = load_checkpoint("shapes")
    image = torch.tensor(page.run("Array.from(result.shown)"), dtype=torch.uint8).view(1, 3, 28, 28)
    with record_attention(model) as maps:
        model(model.card.normalise(image))
    taken = torch.cat(maps)[..., 25, 1:].flatten(0, 1)  # (16, 49)
    pixels = "Array.from(canvas.getContext('2d').getImageData(0, 0, 7, 7).data)"
    drawn = page.run(f"[...document.querySelectorAll('.heads canvas')].map((canvas) => {pixels})")
    blue = torch.tensor(drawn).view(16, 49, 4)[..., 2]
    assert (blue - 233 * taken / taken.max(dim=1, keepdim=True).values).abs().max() < 3


def test_covering_swapping_and_looking_by_mouse(page):
    draw(page, STAR)
    page.click("#cover + span")
    page.click("#picture")
    assert page.run("state.covered.length === 1 && $('status').textContent").startswith("Covered row 3, column 3. star")
    page.click("#picture")
    assert page.run("state.covered.length") == 0
    page.click("#swap + span")
    page.drag(on_picture(page, [(3.5 / 7, 0.5), (4.5 / 7, 0.5), (5.5 / 7, 0.5)]))
    assert page.run("[state.order[24], state.order[26]]") == [26, 24]
    page.click("#look + span")
    page.click("#picture")
    page.click("#status")
    assert page.run("$('query').textContent") == "Where row 3, column 3 looks"
    page.click("#class-token")
    assert page.run("query") == 0


@pytest.mark.parametrize("way", ["mouse", "keyboard"])
def test_every_button_by_mouse_and_by_keyboard(page, way):
    def use(selector):
        if way == "mouse":
            page.click(selector)
        else:
            page.run(f"document.querySelector('{selector}').focus()")
            page.press("Enter")

    assert page.run("$('undo').disabled")
    star = page.run("String(paint(state.picture, state.strokes, state.colour))")
    use("#pictures button:nth-child(2)")
    assert page.run("String(state.picture)") != star
    use("#shuffle")
    assert page.run("state.order.some((patch, n) => patch !== n)")
    use("#positions")
    assert page.run("[state.positions, $('positions').ariaPressed]") == [False, "false"]
    use("#blocks div:nth-child(2) > .heads button:nth-child(3)")
    assert page.run("state.off.map(({ layer, head }) => layer + '.' + head)") == ["1.2"]
    use("#colours button[title=pink]")
    assert page.run("state.colour") == [204, 121, 167]
    assert page.run("$('colour').textContent") == "pink"
    use("#undo")
    assert page.run("state.colour") == [240, 228, 66]
    use("#sheet")
    assert "→" not in page.run("$('status').textContent"), "another picture costs nothing"
    assert page.run("!state.positions && state.off.length === 1"), "the same change, another picture"
    use("#reset")
    assert page.run("state.positions && state.off.length === 0 && state.order === places")
    use("#grid")
    assert page.run("$('grid').ariaPressed") == "false"
    use("#pictures button:nth-child(2)")
    use("#positions")
    assert "→" in page.run("$('status').textContent")


def test_the_picture_by_keyboard(page):
    page.run("$('picture').focus()")
    for keys in (" ", *["ArrowRight"] * 7, " ", *["ArrowDown"] * 7, " ", *["ArrowLeft"] * 7, "Enter"):
        page.press(keys)
    assert page.run("[state.strokes[0].length, classes[best(result.answer)]]") == [4, "square"]
    page.run("$('cover').click(); $('picture').focus()")
    page.press("ArrowDown", " ")
    page.press("Escape")
    assert page.run("state.covered") == [31]
    page.run("$('swap').click(); $('picture').focus()")
    page.press(" ", "ArrowLeft", " ")
    assert page.run("[state.order[30], state.order[31]]") == [31, 30]
    page.press("z", modifiers=2)
    assert page.run("state.order[30]") == 30
    page.run("$('look').click(); $('picture').focus()")
    page.press("ArrowUp", "Enter")
    assert page.run("pinned") == 1 + 23
    page.run("$('class-token').focus()")
    page.press("Enter")
    assert page.run("[pinned, query]") == [0, 0]
    page.run("$('draw').focus()")
    page.press("ArrowRight")
    assert page.run("tool") == "cover"


@pytest.mark.parametrize("way", ["chosen", "dropped"])
def test_a_photo_of_the_readers(browser, pages, way):
    browser.open((pages / "cifar10.html").as_uri())
    give = {
        "chosen": "input.files = given.files; input.dispatchEvent(new Event('change', { bubbles: true }))",
        "dropped": "document.dispatchEvent(new DragEvent('drop', { dataTransfer: given }))",
    }[way]
    browser.run("input = document.querySelector('#photo input'); paper = context(90, 60); paper.fillStyle = '#36c'; 0")
    browser.run("paper.fillRect(0, 0, 90, 60); new Promise((done) => paper.canvas.toBlob((b) => done(blob = b))); 0")
    until(lambda: browser.run("'blob' in globalThis"))
    browser.run(f"given = new DataTransfer(); given.items.add(new File([blob], 'sky.png')); {give}; 0")
    until(lambda: browser.run("$('status').textContent").startswith("Your photo."))
    assert browser.run("[state.picture[0], state.picture[area], state.picture[2 * area]]") == [51, 102, 204]
    browser.run(f"given = new DataTransfer(); given.items.add(new File(['no'], 'notes.txt')); {give}; 0")
    until(lambda: "That is no picture" in browser.run("$('status').textContent"))
