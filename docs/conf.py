"""The site of these pages, for Sphinx: `script/docs` builds it.

The pages are Markdown that a code host shows as well. README.md lists them, and the navigation is made from
its sections here: no page needs markup of Sphinx.
"""

import re
from importlib.metadata import files
from pathlib import Path

HERE = Path(__file__).resolve().parent
PYPROJECT = (HERE.parent / "pyproject.toml").read_text()

project = "fathom"
release = version = re.search(r'^version = "(.+)"$', PYPROJECT, flags=re.M)[1]
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
root_doc = "README"
exclude_patterns = ["examples", "site"]
nitpicky = True
smartquotes = False  # Quotes here are of code as often as not.
highlight_language = "none"
suppress_warnings = ["misc.highlighting_failure"]  # `…` stands for what an example leaves out.
myst_heading_anchors = 4

html_theme = "furo"
html_title = f"fathom {release}"
html_static_path = ["site/static"]
html_css_files = ["site.css"]
html_search_scorer = str(HERE / "site" / "scorer.js")
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
html_use_index = False
html_theme_options = {"footer_icons": []}

LINK = re.compile(r"\[([^\]]+)\]\(([\w/-]+)\.md\)")
# To a page of the repository that the site does not have: only its words stay.
OUTSIDE = re.compile(r"\[([^\]]+)\]\((?:\.\./)+[A-Z]\w*\.md(?:#[^)]*)?\)")
# Their scripts and styles are in the site: whoever passes it on has to pass on their licences, too.
OTHERS = ("furo", "pygments", "snowballstemmer", "sphinx", "sphinx-basic-ng")
REFERENCE = "Reference"  # Where a page stands that README.md does not list.


def sections(text):
    """Second-level headings of README.md -> pages that its links name first -> the words of the link."""
    taken = {root_doc}
    listed = {}
    for part in re.split(r"^## ", text, flags=re.M)[1:]:
        title, _, body = part.partition("\n")
        listed[title] = {page: words for words, page in reversed(LINK.findall(body)) if page not in taken}
        listed[title] = dict(reversed(listed[title].items()))
        taken.update(listed[title])
    return listed


def toctree(pages, caption=""):
    head = ["```{toctree}", ":hidden:", ":maxdepth: 1", *([f":caption: {caption}"] if caption else [])]
    lines = [
        f"{words[0].upper()}{words[1:]} </{page}>" if words else f"/{page}" for page, words in pages.items()
    ]
    return "\n".join(["", *head, "", *lines, "```", ""])


def read_source(app, name, source):
    source[0] = OUTSIDE.sub(drop_link(name), source[0])
    add_navigation(app, name, source)


def drop_link(name):
    """Only of links that leave docs/: as many steps up as the page is deep, and one more."""
    depth = name.count("/") + 1
    return lambda match: match[1] if match[0].count("../") >= depth else match[0]


def add_navigation(app, name, source):
    if name == root_doc:
        listed = sections(source[0])
        known = {page for pages in listed.values() for page in pages}
        unlisted = sorted(page for page in app.env.found_docs - known - {name} if "/" not in page)
        listed[REFERENCE] |= dict.fromkeys(unlisted, "")
        source[0] += "".join(toctree(pages, title) for title, pages in listed.items())
    elif name == "decisions/README":
        pages = sorted(page for page in app.env.found_docs if page.startswith("decisions/0"))
        source[0] += toctree(dict.fromkeys(pages, "")).replace(":hidden:\n", "")


def add_licences(app, error):
    folder = Path(app.outdir, "_static", "licences")
    if error is None and app.builder.name == "html":
        folder.mkdir(parents=True, exist_ok=True)
        for name in OTHERS:
            (folder / f"{name}.txt").write_text(licence_of(name))


def licence_of(package):
    return next(file.read_text() for file in files(package) if re.match(r"LICEN[SC]E|COPYING", file.name))


def setup(app):
    app.connect("source-read", read_source)
    app.connect("build-finished", add_licences)
    return {"parallel_read_safe": True}
