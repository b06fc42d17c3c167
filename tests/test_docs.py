"""The documentation is whole: no page is lost, no link is broken, no public name is missing."""

import ast
import importlib.util
import re
import shutil
import subprocess
import sys
import tomllib
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import bbalpha as bb

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
TEXTS = sorted(path.relative_to(ROOT).as_posix() for path in [*ROOT.glob("*.md"), *PAGES])
SOURCES = sorted(
    path.relative_to(ROOT).as_posix()
    for folder in ("src", "paper/src", "examples", "benchmarks")
    for path in (ROOT / folder).rglob("*.py")
)

LINK = re.compile(r"!?\[(?:[^\]\[]|\[[^\]]*\])*\]\(<?([^)\s>]+)>?\)")
ENTRY = re.compile(r"^::: bbalpha\.(\w+)$", re.MULTILINE)

# Labels of the paper's LaTeX source. A reader of the paper sees numbers: eq. 9, Table 1, Figure 4.
LABELS = (
    "GMM|GaussianMomentMatch1?|MatchMoments|TiltedDist|TrueMoments|VarVsAlpha1|VarVsAlphaAlt1"
    "|alpha_divergence_gradient|bb_alpha_energy|black_box_alpha|exact_posterior"
    "|experiments_neural_network_regression|factor_tying|mnist_results|moment_matching_condition"
    "|new_moment_matching_conditions|(?:new_)?noisy_alpha_energy(?:_reparam)?|power_ep_energy"
    "|probit_results|regression_ll|results_(?:bias|cep|variance)|toy_nnet_example|true_vs_bba2?"
)
KINDS = r"(?:[Ee]qs?|[Ee]quations?|[Ff]igs?|[Ff]igures?|[Tt]ables?|[Tt]abs?|[Ss]ections?|[Ss]ecs?)"
LATEX = re.compile(
    rf"\\(?:label|ref|eqref|cite|citet|citep)\b"
    rf"|\b(?:eq|fig|tab|sec):[A-Za-z]\w+"
    rf"|\b{KINDS}\.?~?\s*\([a-z]\w+\)"  # eq. (hellinger)
    rf"|\b{KINDS}\.?\s+[a-z]+_\w+"  # Figure factor_tying
    rf"|\b(?:{LABELS})\b"
)


@pytest.mark.parametrize("text", TEXTS)
def test_links_lead_to_files_and_headings(text):
    page = ROOT / text
    broken = [link for link in links(page.read_text()) if not leads_somewhere(link, page)]
    assert not broken


@pytest.mark.parametrize("text", [*TEXTS, *SOURCES])
def test_paper_is_cited_by_printed_numbers(text):
    content = (ROOT / text).read_text()
    texts = strings(content) if text.endswith(".py") else [content]
    assert [match[0] for text in texts for match in LATEX.finditer(text)] == []


@pytest.mark.parametrize(
    "cited",
    [
        *(
            "eq. (bb_alpha_energy)",
            "Figure regression_ll",
            "Table probit_results",
            "eq. (hellinger)",
        ),
        *(r"\label{x}", "see tab:results_cep", "Tables results_bias and results_variance"),
        *("Figure (alpha_divergence)", "eqs. (noisy_alpha_energy)"),
    ],
)
def test_a_label_is_found(cited):
    assert LATEX.search(f"The variance grows ({cited}).")


@pytest.mark.parametrize(
    "cited",
    [
        *("eq. 9", "Table 1 and Figures 5–8", "Section 4.2", "(Section 3, eq. 13)", "eq. (13)"),
        *("bb.alpha_divergence", "a table (or several)", "figure of merit", "table_path"),
    ],
)
def test_a_printed_number_is_not_taken_for_a_label(cited):
    assert not LATEX.search(f"The variance grows ({cited}).")


def test_api_reference_has_every_public_name_in_the_order_of_the_package():
    pages = [path for path in navigation() if path.startswith("api/")]
    entries = [name for page in pages for name in ENTRY.findall((DOCS / page).read_text())]
    assert entries == public_names()


def test_overview_of_the_api_has_every_public_name():
    overview = (DOCS / "api" / "index.md").read_text()
    assert re.findall(r"\]\[bbalpha\.(\w+)\]", overview) == public_names()


def test_every_page_is_in_the_navigation_once():
    assert sorted(navigation()) == [page.relative_to(DOCS).as_posix() for page in PAGES]


def test_headings_have_the_anchors_of_the_site():
    text = (
        "# The first\n\n## `fit`, and α > 0\n\n```sh\n# no heading\n```\n\n## Twice\n\n## Twice\n"
    )
    assert anchors(text + '<a id="mine"></a>\n') == {
        *("the-first", "fit-and-0", "twice", "twice_1", "mine")
    }


def test_links_are_found_outside_of_code():
    text = "[a](b.md) `[c](d.md)` ![e [f]](g.png)\n\n```md\n[h](i.md)\n```\n[`j`](<k.md#l>)\n"
    assert links(text) == ["b.md", "g.png", "k.md#l"]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the built site."""
    if importlib.util.find_spec("zensical") is None:
        pytest.skip("the extra `docs` is not installed; `make docs` installs it")
    folder = tmp_path_factory.mktemp("site")
    for name in ("docs", "src"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("zensical.toml", "CHANGELOG.md", "CONTRIBUTING.md"):
        shutil.copy(ROOT / name, folder)
    command = [sys.executable, "-m", "zensical", "build", "--strict"]
    built = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    printed = built.stdout + built.stderr
    assert built.returncode == 0, printed
    assert not re.search("warn|error", printed, re.IGNORECASE), printed
    return folder / "site"


def test_every_link_of_the_built_site_leads_somewhere(site):
    pages = {path: Html.of(path.read_text()) for path in site.rglob("*.html")}
    broken = [
        f"{path.relative_to(site)}: {link}"
        for path, page in pages.items()
        if path.name != "404.html"  # its links are absolute
        for link in page.links
        if not is_in_site(link, path, pages)
    ]
    assert not broken


def test_site_loads_nothing_from_elsewhere(site):
    loaded = [
        address
        for path in site.rglob("*.html")
        for address in Html.of(path.read_text()).loaded
        if urlsplit(address).netloc
    ]
    loaded += [
        match
        for path in site.rglob("*.css")
        for match in re.findall(r"url\(.?https?:[^)]*|@import[^;]*", path.read_text())
    ]
    assert not loaded


def test_api_pages_show_signatures_docstrings_and_doctests(site):
    page = (site / "api" / "fitting.html").read_text()
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", page))
    assert 'id="bbalpha.fit"' in page
    assert "The posterior that minimizes the BB-α energy" in text
    assert "learn_prior: bool | PyTree = False" in text
    assert "<blockquote>" not in page  # what Markdown makes of >>> by itself


def test_tables_inside_of_details_are_tables(site):
    page = (site / "reproduction.html").read_text()
    details = re.findall(r"<details>.*?</details>", page, re.DOTALL)
    assert any("<table>" in text for text in details)
    assert "|---" not in page


class Html(HTMLParser):
    """Ids, links and loaded files of a page."""

    def __init__(self):
        super().__init__()
        self.ids, self.links, self.loaded = set(), [], []

    @classmethod
    def of(cls, text):
        page = cls()
        page.feed(text)
        return page

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        if "id" in attributes:
            self.ids.add(attributes["id"])
        if tag == "a" and attributes.get("href"):
            self.links.append(attributes["href"])
        if tag in ("img", "script", "link"):
            address = attributes.get("src") or attributes.get("href")
            if address and not address.startswith("data:"):
                self.loaded.append(address)
                self.links.append(address)


def is_in_site(link, path, pages):
    """Whether a link of a built page leads to a file of the site, or out of it."""
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return parts.scheme in ("https", "mailto", "data")
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if not parts.fragment or target not in pages:
        return target.is_file()
    return unquote(parts.fragment) in pages[target].ids | {"__top"}


def leads_somewhere(link, page):
    """Whether a link of a Markdown page leads to a file, and to a heading if it names one."""
    parts = urlsplit(link)
    if parts.scheme:
        return parts.scheme in ("https", "mailto")
    target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
    if not target.is_relative_to(ROOT) or not target.exists():
        return False
    if page.is_relative_to(DOCS) and not target.is_relative_to(DOCS):
        return False  # not part of the site
    return not parts.fragment or unquote(parts.fragment) in anchors(target.read_text())


def links(text):
    """The targets of the links and images of a page."""
    return LINK.findall(re.sub(r"`[^`\n]+`", "code", without_blocks(text)))


def anchors(text):
    """What links to a page may name: its headings, as the site does it, and its own ids."""
    prose = without_blocks(text)
    found = set(re.findall(r'<a id="([^"]+)"', prose))
    for heading in re.findall(r"^#+ +(.+)$", prose, re.MULTILINE):
        words = re.sub(r"[^\w\s-]", "", heading.encode("ascii", "ignore").decode()).strip().lower()
        slug = re.sub(r"[-\s]+", "-", words)
        count = sum(name.rpartition("_")[0] == slug or name == slug for name in found)
        found.add(f"{slug}_{count}" if count else slug)
    return found


def without_blocks(text):
    """A page without its fenced blocks."""
    return re.sub(r"^( *)(```+).*?^\1\2$", "", text, flags=re.MULTILINE | re.DOTALL)


def strings(source):
    """Docstrings, messages and other texts of a file, whole."""
    texts = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.JoinedStr):
            texts.append("".join(str(getattr(part, "value", "")) for part in node.values))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            texts.append(node.value)
    return texts


def navigation():
    """The pages of the site, in order."""
    pages = []

    def visit(entry):
        if isinstance(entry, str):
            pages.append(entry)
            return
        for part in entry.values() if isinstance(entry, dict) else entry:
            visit(part)

    visit(tomllib.loads((ROOT / "zensical.toml").read_text())["project"]["nav"])
    return pages


def public_names():
    """The names of `bbalpha`, in the order of its stub."""
    stub = ast.parse((ROOT / "src" / "bbalpha" / "__init__.pyi").read_text())
    (names,) = (
        [ast.literal_eval(element) for element in node.value.elts]
        for node in stub.body
        if isinstance(node, ast.Assign) and node.targets[0].id == "__all__"
    )
    assert sorted(names) == sorted(bb.__all__)
    return names
