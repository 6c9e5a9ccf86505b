"""How Sphinx builds the documentation: Markdown pages, a theme of local files, mathematics as MathML."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_extensions"))

from saltus import __version__  # noqa: E402

project = "Saltus"
author = "The Saltus developers"
copyright = "The Saltus developers, BSD 3-Clause"
version = release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "mathml", "public_names", "command_line", "gallery_page"]
exclude_patterns = ["_build", "_extensions"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 3

html_theme = "furo"
html_title = f"Saltus {version}"
html_static_path = ["_static"]
html_css_files = ["saltus.css"]
html_math_renderer = "mathml"
html_copy_source = False
html_show_sphinx = False

autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True}
python_use_unqualified_type_names = True
add_module_names = False
