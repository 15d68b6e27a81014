"""The web pages in Chromium. Skipped without it, or without what they are built with; not in their workflow."""

import functools
import importlib.util
import os
import re
import subprocess
import sys
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import nbformat
import pytest
import torch

from vit_tutorial import load_checkpoint

from .browser import Browser, find_browser, until
from .test_page_in_a_browser import CIRCLE

WEB = Path(__file__).resolve().parents[2] / "notebooks" / "web"
NOTEBOOKS = sorted(WEB.parent.glob("[0-9]*.ipynb"))
PAGES = ["index", *(path.stem for path in NOTEBOOKS)]
needs = [name for name in ("myst_nb", "sphinx_book_theme", "latex2mathml") if importlib.util.find_spec(name) is None]
needs += [] if find_browser() else ["Chromium or Chrome"]
if needs and "VIT_TUTORIAL_WEBSITE" not in os.environ:
    reason = f"no {', no '.join(needs)}: pip install -r notebooks/web/requirements.txt to test the web pages"
    pytest.skip(reason, allow_module_level=True)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Build the pages and serve them; return where they are, in the browser and on disk."""
    folder = tmp_path_factory.mktemp("site")
    subprocess.run([sys.executable, WEB / "build.py", folder], check=True)
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(SimpleHTTPRequestHandler, directory=folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", folder
    server.shutdown()


@pytest.fixture(scope="module")
def started(tmp_path_factory):
    browser = Browser(tmp_path_factory.mktemp("profile"))
    browser.ask("Emulation.setScrollbarsHidden", hidden=True)  # as on a phone
    yield browser
    browser.close()


@pytest.fixture
def browser(started, site):
    """Hand out a browser that has seen no error, and asked for nothing from another place, when the test ends."""
    started.requests.clear()
    started.problems.clear()
    yield started
    assert started.problems == []
    assert started.requests
    assert [asked for asked in started.requests if not asked.startswith((site[0], "data:", "about:"))] == []


@torch.no_grad()
@pytest.mark.parametrize("page", PAGES)
def test_a_page_as_a_reader_needs_it(page, browser, site):
    address, folder = site
    browser.open(f"{address}/{page}.html", width=360)
    assert browser.run("document.querySelectorAll('details[open]').length") == 0
    browser.run("document.querySelectorAll('details').forEach((each) => (each.open = true))")
    assert browser.run("document.documentElement.scrollWidth") == 360, "nothing to scroll sideways, folded or not"
    assert browser.run("[...document.images].filter((each) => each.alt.length < 20).map((each) => each.src)") == []
    words = "(copy => (copy.querySelectorAll('code, pre').forEach((each) => each.remove()), copy.textContent))"
    text = browser.run(f"{words}(document.querySelector('article').cloneNode(true))")
    assert re.findall(r"\$|\\[a-z(\[]", text) == [], "a formula that is no formula"
    links = browser.run("[...document.links].map((each) => each.href)")
    for path, _, anchor in (link.removeprefix(address).partition("#") for link in links if link.startswith(address)):
        target = folder / (path.lstrip("/") or "index.html")
        assert target.is_file(), path
        assert not anchor or f'id="{anchor}"' in target.read_text(encoding="utf-8"), (path, anchor)

    notebook = folder / f"{page}.ipynb"
    plays = notebook.read_text(encoding="utf-8").count('"play(') if page != "index" else 1
    assert browser.run("document.querySelectorAll('iframe').length") == plays
    model = load_checkpoint("shapes")
    for frame in range(1, 1 + plays):
        shown = torch.tensor(browser.run("Array.from(result.shown)", frame), dtype=torch.uint8).view(1, 3, 28, 28)
        answer = torch.tensor(browser.run("Array.from(result.answer)", frame))
        assert (answer - model(model.card.normalise(shown))[0].softmax(0)).abs().max() < 1e-3
    if page == "index":
        return
    assert f"{address}/{page}.ipynb" in links
    assert notebook.read_bytes() == (WEB.parent / notebook.name).read_bytes(), "a reader downloads the lesson as it is"
    assert any(f"blob/main/notebooks/{page}.ipynb" in link for link in links), "it opens on Colab"
    tags = [cell.metadata.get("tags", []) for cell in nbformat.read(notebook, as_version=4).cells]
    tags[1] = ["hide-input"]  # the setup
    for tag, place in (("hide-output", "below"), ("hide-input", "above")):
        folded = browser.run(f"document.querySelectorAll('details.hide.{place}-input').length")
        assert folded == sum(tag in each for each in tags)
    neighbours = {PAGES[abs(PAGES.index(page) + step) % len(PAGES)] for step in (-1, 1)}
    assert {link.rpartition("/")[2].removesuffix(".html") for link in links} >= neighbours


@pytest.mark.parametrize("width", [360, 1280])
def test_a_circle_drawn_on_the_start_page_is_a_circle(width, browser, site):
    browser.open(f"{site[0]}/index.html", width)
    browser.run("scrollTo({ top: document.querySelector('iframe').offsetTop, behavior: 'instant' })")
    place = "(({ x, y, width }) => [x, y, width])({}.getBoundingClientRect())"
    left, top, _ = browser.run(place.replace("{}", "document.querySelector('iframe')"))
    x, y, size = browser.run(place.replace("{}", "$('picture')"), frame=1)
    browser.drag([(left + x + size * across, top + y + size * down) for across, down in CIRCLE])
    assert "circle" in browser.run("document.querySelector('#bars .first').textContent", frame=1)


def test_an_answer_opens_by_keyboard(browser, site):
    browser.open(f"{site[0]}/03_attention.html")
    for kind in ("details.hide.below-input", "article details:not(.hide)"):
        browser.run(f"document.querySelector('{kind} > summary').focus()")
        browser.press("Enter")
        assert browser.run(f"document.querySelector('{kind}').open"), kind


def test_light_and_dark_reach_the_live_model_too(browser, site):
    for scheme in ("light", "dark"):
        browser.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        browser.open(f"{site[0]}/index.html")
        assert browser.run("document.documentElement.style.colorScheme", frame=1) == scheme
    browser.run("document.documentElement.dataset.theme = 'light'")  # as the button does
    until(lambda: browser.run("document.documentElement.style.colorScheme", frame=1) == "light")


def test_the_search_finds_a_word(browser, site):
    browser.open(f"{site[0]}/search.html?q=softmax")
    until(lambda: browser.run("document.querySelectorAll('#search-results li').length > 2"))
