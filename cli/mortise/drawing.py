"""How plots look, wherever they stand, and the pages around them."""

import jinja2
import plotly.graph_objects as go

COLOURS = [
    "#4c78a8",
    "#f58518",
    "#54a24b",
    "#e45756",
    "#72b7b2",
    "#b279a2",
    "#9d755d",
    "#eeca3b",
    "#ff9da6",
    "#79706e",
]
LAYOUT = {
    "template": "plotly_white",
    "margin": {"l": 60, "r": 20, "t": 70, "b": 50},
    "height": 420,
    "hovermode": "closest",
    "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom"},
}


def template(name: str) -> jinja2.Template:
    """A page of this package; what is put into it is text, whatever it looks like."""
    loader = jinja2.PackageLoader("mortise")
    return jinja2.Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True).get_template(name)


def html_of(name: str, figure: go.Figure) -> str:
    return figure.to_html(
        full_html=False, include_plotlyjs=False, div_id=name, config={"displaylogo": False, "responsive": True, "toImageButtonOptions": {"format": "svg", "filename": name}}
    )
