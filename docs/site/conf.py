"""How Sphinx makes the site from what `prepare.py` has laid out. A page fetches nothing from elsewhere."""

from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import docstrings

project = "vkgrad"
release = metadata.version("vkgrad")
copyright = "the authors of vkgrad, Apache-2.0"
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.autosummary"]
nb_custom_formats = {".py": ["jupytext.reads", {"fmt": "py:percent"}]}
exclude_patterns = ["conf.py", "docstrings.py", "templates", "jupyter_execute"]
nb_execution_mode = "cache"
nb_execution_timeout = 600
nb_execution_raise_on_error = True
nb_execution_show_tb = True
nb_ipywidgets_js: dict[str, Any] = {}  # it would come from a server
nb_merge_streams = True
suppress_warnings = ["mystnb.unknown_mime_type"]
myst_heading_anchors = 3
autosummary_generate = False  # every page of the reference is written by prepare.py
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
python_maximum_signature_line_length = 100
python_use_unqualified_type_names = True
html_theme = "furo"
templates_path = ["templates"]
html_title = f"vkgrad {release}"
html_show_sphinx = False
html_copy_source = False
nb_execution_cache_path = str(Path(__file__).parent.parent / "notebooks")  # beside the pages, which are laid out anew
html_theme_options = {"footer_icons": [], "top_of_page_buttons": []}


def _as_rst(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    lines[:] = docstrings.as_rst(lines)


def setup(app: Any) -> None:
    app.connect("autodoc-process-docstring", _as_rst)
