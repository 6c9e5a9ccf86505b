"""Mathematics of a page as MathML, which browsers draw themselves: no script and no font is fetched."""

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.util.math import get_node_equation_number
from sphinx.writers.html5 import HTML5Translator


def inline(writer: HTML5Translator, node: nodes.math) -> None:
    """Write a formula within a line."""
    writer.body.append(tex2mathml(node.astext()))
    raise nodes.SkipNode


def block(writer: HTML5Translator, node: nodes.math_block) -> None:
    """Write a formula on lines of its own, with its number if it has a label."""
    number = ""
    if node["number"]:
        number = f'<span class="eqno">({get_node_equation_number(writer, node)})</span>'
    identity = f' id="{node["ids"][0]}"' if node["ids"] else ""
    tex = node.astext()
    if r"\\" in tex and r"\begin" not in tex:
        tex = rf"\begin{{align}}{tex}\end{{align}}"
    writer.body.append(
        f'<div class="math"{identity}>{number}<div class="formula">{tex2mathml(tex, as_block=True)}</div></div>\n'
    )
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the renderer that `html_math_renderer` in conf.py names."""
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
