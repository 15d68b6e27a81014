"""How the pages look: read by Sphinx, which build.py starts."""

import re

from docutils import nodes
from latex2mathml.converter import convert

import refresh

project = html_title = "The Vision Transformer, understood"
exclude_patterns = ["README.md"]
extensions = ["myst_nb", "sphinx_book_theme"]
nb_execution_mode = "off"
nb_code_prompt_show, nb_code_prompt_hide = "Show the {type}", "Hide the {type}"
myst_enable_extensions = ["dollarmath"]
html_math_renderer = "mathml"

html_theme = "sphinx_book_theme"
html_static_path = ["static"]
html_css_files = ["pages.css"]
html_favicon = "static/patches.svg"
html_copy_source = html_show_sourcelink = False
html_context = {"default_mode": "auto"}  # light or dark, as the reader's system is
html_theme_options = {
    "navbar_persistent": [],  # the search field stands in the sidebar
    "footer_content_items": [],
    "repository_url": refresh.address(),
    "use_repository_button": True,
    "use_issues_button": True,
    "use_download_button": False,  # a lesson's first line has it
}


def write_math(translator, node):
    """Write a formula as MathML, which browsers draw without a script."""
    spaced = re.sub(r" *\\(ln|log) (?=[\w\\])", r"\\,\\\1\\,", node.astext())  # 2 ln 2, not 2ln2
    translator.body.append(convert(spaced, display="inline" if node.tagname == "math" else "block"))
    raise nodes.SkipNode


def setup(app):
    app.add_html_math_renderer("mathml", (write_math, None), (write_math, None))
