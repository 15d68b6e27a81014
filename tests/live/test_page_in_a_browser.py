"""The page in Chromium, by mouse and by keyboard. Skipped where no browser is, but not in the workflow."""

import math
import os
import random
import subprocess
import sys

import pytest

from vit_tutorial import load_checkpoint, play

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
    browser.open(pages / "shapes.html")
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


def along(corners, steps=2):
    """Return points on the straight lines between corners, and back to the first."""
    ends = [*corners[1:], corners[0]]
    pairs = zip(corners, ends, strict=True)
    return [(x + (u - x) * k / steps, y + (v - y) * k / steps) for (x, y), (u, v) in pairs for k in range(steps)]


def polar(radii, turn=0.0):
    """Return the corners at these distances from (0, 0), in equal angles, the first at the top."""
    angles = [2 * math.pi * i / len(radii) + turn for i in range(len(radii))]
    return [(r * math.sin(angle), -r * math.cos(angle)) for r, angle in zip(radii, angles, strict=True)]


BARS = [0.3, 0.95, 0.95, 0.3, 0.3, -0.3, -0.3, -0.95, -0.95, -0.3, -0.3, 0.3]
OUTLINES = {
    "circle": polar([0.85] * 16),
    "square": along(polar([0.99] * 4, turn=math.pi / 4)),
    "triangle": along(polar([1.0] * 3)),
    "star": along(polar([1.0, 0.45] * 5)),
    "cross": along(list(zip(BARS, [*BARS[-3:], *BARS[:-3]], strict=True))),
}


def by_hand(corners, hand):
    """Place an outline as a hand would: somewhere near the centre, a little turned, with a tremor."""
    radius, turn = hand.uniform(0.3, 0.4), hand.uniform(-0.3, 0.3)
    x, y = hand.uniform(0.44, 0.56), hand.uniform(0.44, 0.56)
    cos, sin = radius * math.cos(turn), radius * math.sin(turn)
    tremor = [(hand.gauss(0, 0.006), hand.gauss(0, 0.006)) for _ in corners]
    return [
        (x + cos * u - sin * v + a, y + sin * u + cos * v + b) for (u, v), (a, b) in zip(corners, tremor, strict=True)
    ]


def test_a_drawn_circle_is_called_a_circle_and_the_bars_move_while_it_is_drawn(page):
    circle = on_picture(page, [(0.5 + 0.35 * u, 0.5 + 0.35 * v) for u, v in OUTLINES["circle"]])
    before = page.run("$('bars').innerHTML")
    page.mouse("mousePressed", *circle[0])
    for point in circle[1:12]:
        page.mouse("mouseMoved", *point)
    half = page.run("$('bars').innerHTML")
    page.mouse("mouseReleased", *circle[12])
    assert before != half
    assert page.run("classes[best(result.answer)]") == "circle"
    assert "circle" in page.run("document.querySelector('#bars .first').textContent")


def test_a_second_outline_makes_a_hole(page):
    assert draw(page, [(0.5 + 0.38 * u, 0.5 + 0.38 * v) for u, v in OUTLINES["circle"]]) == "circle"
    assert draw(page, [(0.5 + 0.2 * u, 0.5 + 0.2 * v) for u, v in OUTLINES["circle"]]) == "ring"


def test_of_twenty_drawn_outlines_at_least_seventeen_are_called_right(page):
    hand, answers = random.Random(0), []
    for name, corners in OUTLINES.items():
        for _ in range(4):
            page.click("#sheet")
            answers.append((name, draw(page, by_hand(corners, hand))))
    assert sum(name == answer for name, answer in answers) >= 17, answers


def test_covering_swapping_and_looking_by_mouse(page):
    draw(page, [(0.5 + 0.38 * u, 0.5 + 0.38 * v) for u, v in OUTLINES["star"]])
    page.click("#cover + span")
    page.click("#picture")
    assert page.run("state.covered.length === 1 && $('status').textContent").startswith("Covered row 3, column 3. star")
    page.click("#picture")
    assert page.run("state.covered.length") == 0
    page.click("#swap + span")
    x, y = page.centre("#picture")
    page.drag([(x, y), (x + 65, y), (x + 130, y)])
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
    use("#colours button:nth-child(3)")
    assert page.run("state.colour") == [204, 121, 167]
    use("#undo")
    assert page.run("state.colour") == [240, 228, 66]
    use("#sheet")
    assert "→" not in page.run("$('status').textContent"), "another picture costs nothing"
    assert page.run("!state.positions && state.off.length === 1"), "the same change, another picture"
    use("#reset")
    assert page.run("state.positions && state.off.length === 0 && state.order === places")
    use("#grid")
    assert page.run("$('grid').ariaPressed") == "false"
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


def test_everything_that_can_be_used_has_a_name(page):
    nameless = "[...document.querySelectorAll('button, input, [role], canvas[tabindex]')].filter((e) => !("
    nameless += (
        "e.ariaLabel || e.title || e.textContent.trim() || e.labels?.[0]?.textContent.trim())).map((e) => e.outerHTML)"
    )
    assert page.run(nameless) == []


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [360, 660, 1200])
def test_nothing_is_wider_than_the_screen_and_a_finger_can_hit_it(browser, pages, width, dark):
    browser.open(pages / "cifar10.html", width=width, dark=dark)
    assert browser.run("document.documentElement.scrollWidth <= innerWidth")
    small = "[...document.querySelectorAll('button, .tools span, .button')].map((e) => e.getBoundingClientRect())"
    assert browser.run(f"{small}.filter((b) => b.width && (b.width < 43.9 || b.height < 43.9)).length") == 0
    light = browser.run("getComputedStyle(document.documentElement).backgroundColor.match(/\\d+/g)[0] > 127")
    assert light != dark


@pytest.mark.parametrize("way", ["chosen", "dropped"])
def test_a_photo_of_the_readers(browser, pages, way):
    browser.open(pages / "cifar10.html")
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
