"""Encodings, types and a diagnosis as a notebook shows them: a headline, a table with all its rows, and bars."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from polarised.regime.classify import Regime
    from polarised.regime.encodings import Encodings

__all__ = ["diagnosis_html", "encodings_html", "regime_html"]

COLOURS = {"active": "#1b7837", "mixed": "#b8860b", "passive": "#888888"}
MARKS = {"active": "●", "mixed": "◆", "passive": "○"}
# Rows beyond these are counted, not shown: a notebook is no database.
MOST = 512


def regime_html(regime: "Regime", groups: Mapping[str, Sequence[int]] | None = None) -> str:
    """Return a row for each variable with its type and why, its KL as a bar, and the evidence."""
    table = regime.table()
    names = {j: name for name, of in (groups or {}).items() for j in of}
    finite = np.nan_to_num(regime.statistics.kl, posinf=0.0)
    widest = max(float(finite.max(initial=0.0)), 1e-9)
    head = ["variable", *(["group"] if names else []), "type", "KL, nats", "", "ratio", "noise", "sure"]
    rows = []
    for row in table.head(MOST).iter_rows(named=True):
        kind, j = row["type"], row["variable"]
        bar = f'<div style="background:{COLOURS[kind]};height:.7em;width:{100 * finite[j] / widest:.1f}%"></div>'
        why = escape(str(row.get("why", kind)))
        cells = [
            str(j),
            *([escape(names[j])] if names else []),
            f'<span style="color:{COLOURS[kind]}" title="{why}">{MARKS[kind]} {kind}</span>',
            f"{row['kl']:.2f}",
            f'<div style="width:8em">{bar}</div>',
            f"{row['ratio_mean']:.3f}",
            f"{row['noise_share']:.2f}",
            "–" if np.isnan(row["confidence"]) else f"{row['confidence']:.0%}",
        ]
        rows.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    more = f"<p>… and {len(table) - MOST:,} more.</p>" if len(table) > MOST else ""
    heads = "".join(f"<th>{name}</th>" for name in head)
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table>{more}"


def encodings_html(encodings: "Encodings") -> str:
    """Return what was taken as what, with the range of each variable's mean and its average variance."""
    mean, variance = encodings.mean[:, :MOST], encodings.variance[:, :MOST]
    rows = "".join(
        f"<tr><td>{j}</td><td>{low:.3g} … {high:.3g}</td><td>{width:.3g}</td></tr>"
        for j, (low, high, width) in enumerate(zip(mean.min(0), mean.max(0), variance.mean(0), strict=True))
    )
    heads = "<th>variable</th><th>means</th><th>average variance</th>"
    return f"<p>{escape(repr(encodings))}</p><table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>"


def diagnosis_html(
    headline: str, reading: str, regime: "Regime", advice: Sequence[str], groups: Mapping[str, Sequence[int]]
) -> str:
    """Return the headline, what was read as what, the table and the advice."""
    said = "".join(f"<li>{escape(sentence)}</li>" for sentence in advice)
    read = f"<p><small>{escape(reading)}</small></p>" if reading else ""
    return f"<div><p><b>{escape(headline)}</b></p>{read}{regime_html(regime, groups)}<ul>{said}</ul></div>"
