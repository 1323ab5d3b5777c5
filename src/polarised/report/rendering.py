"""Templates and data become one file of HTML that needs nothing else and runs nothing else."""

import base64
import hashlib
import importlib.resources
import json
from collections.abc import Mapping, Sequence
from typing import Any

from polarised.report import theme

__all__ = ["embedded", "rendered"]


def embedded(data: Any) -> str:
    """Return data as JSON that is inert inside a script element: no text in it can close the element or open one.

    >>> embedded("</script>") == '"\\\\u003c/script\\\\u003e"'
    True
    """
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    # A lone surrogate, as in the name of a file that is not UTF-8, has no encoding.
    return text.encode("utf-8", "replace").decode("utf-8")


def rendered(
    template: str,
    data: Mapping[str, Any],
    *,
    title: str,
    scripts: Sequence[str],
    images: str = "",
    connect: str = "'none'",
) -> str:
    """Return a template of this folder filled in with data, our styles and the named scripts.

    The page's own policy allows no network and no script but the one whose digest it names; `images` and `connect`
    widen it for a page that has a server.

    >>> rendered("frame.html", {}, title="<b>", scripts=["core.js"]).count("<b>")
    0
    """
    import jinja2
    import markupsafe

    from polarised import __version__

    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_text), autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True
    )
    script = "\n".join(_text(name) for name in scripts)
    digest = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
    own = {
        "style": _text("page.css"),
        "light": theme.style_sheet("light"),
        "dark": theme.style_sheet("dark"),
        "script": script,
        "json": embedded({**data, "subsets": theme.SUBSETS}),
    }
    return environment.get_template(template).render(
        title=title,
        data=data,
        version=__version__,
        digest=digest,
        images=images,
        connect=markupsafe.Markup(connect),
        **{name: markupsafe.Markup(text) for name, text in own.items()},
    )


def _text(name: str) -> str:
    return importlib.resources.files("polarised.report").joinpath("templates", name).read_text(encoding="utf-8")
