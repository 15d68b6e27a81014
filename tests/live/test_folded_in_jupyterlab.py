"""A prediction in JupyterLab: its answer is folded, and the line that stays readable says nothing."""

import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.request import urlopen

import pytest

from .browser import Browser, find_browser, until

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.skipif(not find_browser(), reason="no Chromium and no Chrome on this machine")


@pytest.fixture
def address(tmp_path):
    """JupyterLab with the lessons, as README starts it."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    options = ["--no-browser", "--allow-root", f"--port={port}", "--IdentityProvider.token=", f"--notebook-dir={ROOT}"]
    log = (tmp_path / "log").open("w")
    server = subprocess.Popen([sys.executable, "-m", "jupyterlab", *options], stdout=log, stderr=log)
    address = f"http://127.0.0.1:{port}"
    until(lambda: answers(address))
    yield address
    server.terminate()
    server.wait(30)


def answers(address: str) -> bool:
    try:
        return urlopen(address, timeout=5).status == 200
    except OSError:
        return False


def test_of_a_folded_answer_only_a_neutral_line_can_be_read(address, tmp_path):
    browser = Browser(tmp_path / "profile")
    browser.ask("Page.navigate", url=f"{address}/lab/tree/notebooks/01_patchify.ipynb?reset")
    until(lambda: browser.run("document.querySelectorAll('.jp-Notebook .jp-Cell').length > 20"))
    read = set()
    for _ in range(40):  # cells are drawn when they come into view
        read |= set(browser.run("[...document.querySelectorAll('.jp-OutputPlaceholder')].map(e => e.textContent)"))
        browser.run("[...document.querySelectorAll('.jp-WindowedPanel-outer')].forEach(e => e.scrollTop += 500)")
        time.sleep(0.05)
    browser.close()
    assert read, "no output is folded"
    assert {text.strip(" •") for text in read if not text.startswith("<Figure")} == {"The answer:"}
