"""How the documentation is built; ``make docs`` needs no network."""

from importlib import import_module
from importlib.metadata import version as installed
from typing import Any

import typer
from docutils import nodes
from docutils.statemachine import StringList
from latex2mathml.converter import convert as latex_to_mathml
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective


project = "sjepa"
copyright = "the sjepa authors"
release = installed("sjepa")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["_build", "templates", "SKILL.md"]
templates_path = ["templates"]
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the docstrings say it, in words
napoleon_google_docstring = False
napoleon_use_ivar = True
# Without it the underscore of an attribute such as law_ is read as that of a link.
strip_signature_backslash = True
html_extra_path = ["llms.txt"]

html_math_renderer = "mathml"
html_theme = "furo"
html_title = "sjepa"
html_static_path: list[str] = []
# Prompts and output are not part of a command.
copybutton_prompt_text = r"\$ "
copybutton_prompt_is_regexp = True
copybutton_only_copy_prompt_lines = True


class Commands(SphinxDirective):
    """Every command of the program with its arguments and options, as ``--help`` has them."""

    def run(self) -> list[nodes.Node]:
        from sjepa.cli import app as cli

        for name in cli._COMMANDS:  # each registers itself
            import_module(f"sjepa.cli.{name}")
        text = []
        group = typer.main.get_command(cli.app)
        for name, command in group.commands.items():  # type: ignore[attr-defined]
            text += [f"## sjepa {name}", "", command.help or "", ""]
            for one in command.params:
                if one.name == "help":
                    continue
                names = ", ".join(one.opts) if one.param_type_name == "option" else one.name.upper()
                unset = one.default in (None, "", False, ())
                default = "" if unset else f" Default: {one.default}."
                text += [f"`{names}`", f": {getattr(one, 'help', '') or ''}{default}", ""]
        node = nodes.container()
        self.state.nested_parse(StringList(text, "the program"), 0, node, match_titles=True)
        return node.children


def formula(writer: Any, node: nodes.Element) -> None:
    """TeX as MathML, which browsers typeset themselves: reading needs no network either."""
    display = "block" if isinstance(node, nodes.math_block) else "inline"
    writer.body.append(latex_to_mathml(node.astext(), display=display))
    raise nodes.SkipNode


def setup(app: Sphinx) -> None:
    app.add_directive("commands", Commands)
    app.add_html_math_renderer("mathml", (formula, None), (formula, None))
