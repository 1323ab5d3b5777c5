"""Figures show the numbers they are given; every entry of the page draws, and none touches global state."""

import itertools
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars
import pytest
from matplotlib.figure import Figure
from PIL import Image

from polarised import registry
from polarised.bibliography import bibliography
from polarised.data import linear_gaussian
from polarised.diagnosis import Diagnosis
from polarised.errors import DataError
from polarised.regime import Encodings, classify
from polarised.regime.advice import COLOURS
from polarised.regime.dimensions import one_shot_count
from polarised.regime.forecast import forecast
from polarised.regime.timeline import Timeline
from polarised.report import figures, save
from polarised.report.drawing import band, middle_range, name_points, panels, trail
from polarised.report.figures.variables import clearest
from polarised.report.papers import of_one_model
from polarised.report.theme import REPRESENTATIONS, SERIES, TYPES


@pytest.fixture(scope="module")
def timeline() -> Timeline:
    generator, timeline = np.random.default_rng(0), Timeline(warn=False)
    for step in range(0, 60, 10):
        mean = generator.standard_normal((200, 4)) * [1.0, 0.02, 0.5, 0.02]
        mean[:, 3] = 0.02 * mean[:, 0]
        settled = min(1.0, step / 30)
        variance = np.tile([1 - 0.97 * settled, 0.99, 0.5, 0.99], (200, 1))
        timeline.update(step, mean, variance=variance)
    return timeline


@pytest.fixture(scope="module")
def drawers(diagnosis: Diagnosis, table: polars.DataFrame, timeline: Timeline) -> dict[str, Callable[[], Figure]]:
    """How each entry of the page is called; a new entry without a line here fails the test below."""
    encodings, regime, pictures = diagnosis.encodings, diagnosis.regime, diagnosis.pictures
    assert pictures is not None
    plane = encodings.keep([0, 1])
    biased = polars.DataFrame(
        {
            "dimension": [2, 2, 4],
            "determinant": [0.5, 1.0, 1.0],
            "estimator": ["truth", "MWS", "MWS"],
            "value": [0.3, 1, 2],
        }
    )
    sparse = table.with_columns(
        metric=polars.col("metric").replace(
            {"sap": "hoyer", "effective_rank": "mmd", "total_correlation": "factor_vae_score"}
        )
    )
    plane_table = polars.DataFrame(
        {"alpha": [0.0, 0.0, 1.0], "beta": [0.0, 1.0, 1.0], "metric": ["mmd"] * 3, "value": [2.0, 1.0, 0.5]}
    )
    spread = polars.DataFrame({"method": ["a", "a"], "strength": [1.0, 2.0], "factor": ["x", "x"], "value": [1, 3]})
    square = np.outer(np.hanning(8), np.hanning(8))
    with_encodings = {
        name: (lambda name=name: getattr(figures, name)(encodings, regime))
        for name in (
            "histograms_by_type", "posterior_and_prior", "correlation_heatmap", "overview", "latent_pairs",
            "factor_against_latent",
        )
    }  # fmt: skip
    with_table = {
        name: (lambda name=name: getattr(figures, name)(table))
        for name in (
            "types_by_strength", "metric_over_passive", "metric_by_subset", "downstream_by_subset",
            "total_correlation_by_strength", "scores_against",
        )
    }  # fmt: skip
    with_timeline = {
        name: (lambda name=name: getattr(figures, name)(timeline))
        for name in (
            "correlation_counts", "correlations_over_training", "types_over_training", "kl_over_training",
            "ratio_over_training",
        )
    }  # fmt: skip
    return {
        **with_encodings,
        **with_table,
        **with_timeline,
        "estimator_bias": lambda: figures.estimator_bias(biased),
        "factor_matrices": lambda: figures.factor_matrices(np.eye(3, 2), np.eye(3, 2), ["shape", "scale"]),
        "reconstructions": lambda: figures.reconstructions(pictures),
        "latent_walks": lambda: figures.latent_walks(pictures, regime),
        "samples": lambda: figures.samples(pictures.originals, columns=4),
        "reconstruction_against_score": lambda: figures.reconstruction_against_score(sparse),
        "sparsity_by_regularisation": lambda: figures.sparsity_by_regularisation(sparse),
        "aggregate_posterior_density": lambda: figures.aggregate_posterior_density({"a": plane}, resolution=40),
        "prior_density": lambda: figures.prior_density({"normal": square}),
        "magnitude_by_class": lambda: figures.magnitude_by_class(encodings),
        "plane_of_strengths": lambda: figures.plane_of_strengths(plane_table, metrics=("mmd",)),
        "latents_by_factor": lambda: figures.latents_by_factor(spread),
        "sizes": lambda: figures.sizes([regime], one_shot_count([regime])),
        "alive_curve": lambda: figures.alive_curve(forecast(linear_gaussian(), variance=0.3, latents=8)),
    }


@pytest.mark.parametrize("name", registry.names("figure"))
def test_every_figure_draws_something(name: str, drawers: dict[str, Callable[[], Figure]]) -> None:
    figure = drawers[name]()
    figure.canvas.draw()
    pixels = np.asarray(figure.canvas.buffer_rgba())[..., :3]  # type: ignore[attr-defined]
    assert (pixels < 250).any(axis=-1).mean() > 0.005
    assert all(axis.has_data() for axis in figure.axes)


def test_pyplot_is_never_used() -> None:
    program = "import sys, polarised.report.figures; sys.exit('matplotlib.pyplot' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_a_figure_is_saved_reproducibly_as_vectors_and_image(
    drawers: dict[str, Callable[[], Figure]], tmp_path: Path
) -> None:
    first = save(drawers["types_by_strength"](), tmp_path / "v1.0" / "a")
    second = save(drawers["types_by_strength"](), tmp_path / "v1.0" / "b")
    assert [path.name for path in first] == ["a.svg", "a.pdf", "a.png"]
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]


def test_bars_of_types_are_the_mean_counts(table: polars.DataFrame) -> None:
    axis = figures.types_by_strength(table).axes[0]
    counts = table.filter((polars.col("metric") == "count") & (polars.col("method") == "BetaVAE"))
    passive = counts.filter(polars.col("variables") == "passive").group_by("strength").agg(polars.col("value").mean())
    expected = passive.sort("strength")["value"].to_list()
    bars = {str(bars.get_label()): [bar.get_height() for bar in bars] for bars in axis.containers}  # type: ignore[attr-defined]
    np.testing.assert_allclose(bars["passive"], expected)


def test_bars_behind_a_metric_have_one_scale_up_to_all_variables(table: polars.DataFrame) -> None:
    few = polars.col("metric") == "count", polars.col("method") == "BetaVAE"
    halved = table.with_columns(value=polars.when(*few).then(polars.col("value") / 2).otherwise("value"))
    counts = table.filter(polars.col("metric") == "count")
    whole = counts.group_by("method", "strength", "seed").agg(polars.col("value").sum())["value"].max()
    right = [axis for axis in figures.metric_over_passive(halved).axes if axis.containers]
    assert len(right) > 1
    np.testing.assert_allclose([axis.get_ylim() for axis in right], [(0.0, whole)] * len(right))


def test_types_by_a_rule_that_the_table_lacks_are_refused(table: polars.DataFrame) -> None:
    ruled = table.with_columns(rule=polars.when(polars.col("metric") == "count").then(polars.lit("standard")))
    for figure in (figures.types_by_strength, figures.metric_over_passive):
        with pytest.raises(DataError, match=r"by the rule .used., but the table has only standard; choose another"):
            figure(ruled, rule="used")
        assert figure(ruled, rule="standard").axes


def test_a_later_method_with_larger_accuracies_is_not_cut_off(table: polars.DataFrame) -> None:
    last = table["method"].unique(maintain_order=True).to_list()[-1]
    larger = polars.when(polars.col("method") == last).then(3 * polars.col("value")).otherwise("value")
    axes = figures.downstream_by_subset(table.with_columns(value=larger)).axes
    drawn = [float(np.nanmax(line.get_ydata())) for axis in axes for line in axis.lines]  # type: ignore[arg-type]
    assert {axis.get_ylim()[0] for axis in axes} == {0.0}
    assert min(axis.get_ylim()[1] for axis in axes) > max(drawn)


def test_the_rule_chooses_the_rows(table: polars.DataFrame) -> None:
    counts = table.filter(polars.col("metric") == "count")
    none = counts.with_columns(polars.lit(0.0).alias("value"), rule=polars.lit("relative"))
    both = polars.concat([counts.with_columns(rule=polars.lit("standard")), none])
    heights = [
        sum(bar.get_height() for bars in figures.types_by_strength(both, rule=rule).axes[0].containers for bar in bars)  # type: ignore[attr-defined]
        for rule in ("standard", "relative")
    ]
    assert heights == [pytest.approx(60.0), 0.0]


def test_a_band_contains_the_middle_seeds() -> None:
    values = np.arange(41.0)
    _, (axis,) = panels(1)
    band(axis, [0, 1], [values, np.array([np.nan])], SERIES[0])
    np.testing.assert_array_equal(axis.lines[0].get_ydata(), [values.mean(), np.nan])
    edge = np.asarray(axis.collections[0].get_paths()[0].vertices)[:, 1]
    np.testing.assert_allclose((edge.min(), edge.max()), (1.0, 39.0))
    assert middle_range(values[:1]) == (0.0, 0.0)


def test_a_mean_of_few_seeds_is_a_faint_mark_outside_the_line() -> None:
    _, (axis,) = panels(1)
    band(axis, [0, 1, 2], [np.zeros(20), np.full(3, 5.0), np.ones(20)], SERIES[0], label="mixed")
    line, mark = axis.lines
    np.testing.assert_array_equal(line.get_ydata(), [0.0, np.nan, 1.0])
    np.testing.assert_array_equal(mark.get_ydata(), [np.nan, 5.0, np.nan])
    assert mark.get_linestyle() == "None"
    assert mark.get_alpha() < 0.5
    _, (axis,) = panels(1)
    band(axis, [0, 1], [np.zeros(3), np.zeros(2)], SERIES[0], label="mixed", seeds=20)
    assert np.isnan(axis.lines[0].get_ydata()).all()
    assert np.isfinite(axis.lines[1].get_ydata()).all()


def test_a_line_is_not_broken_where_only_other_methods_were_tried(table: polars.DataFrame) -> None:
    shifted = table.with_columns(method=polars.lit("other"), strength=polars.col("strength") + 0.5)
    axis = figures.total_correlation_by_strength(polars.concat([table, shifted])).axes[-1]
    assert all(np.isfinite(line.get_ydata()).all() for line in axis.lines)


def test_the_capacity_of_annealed_vae_is_not_called_a_strength(table: polars.DataFrame) -> None:
    both = polars.concat([table, table.with_columns(method=polars.lit("annealed VAE"))])
    named = {axis.get_title(): axis.get_xlabel() for axis in figures.types_by_strength(both).axes}
    assert named.pop("annealed VAE") == "capacity (larger is weaker)"
    assert set(named.values()) == {"strength"}


def test_a_line_connects_the_means_of_runs_drawn_as_dots() -> None:
    _, (axis,) = panels(1)
    runs = [(np.array([end, end + 0.5]), np.array([end, 2 * end])) for end in (1.0, 3.0, 2.0)]
    assert trail(axis, runs, SERIES[0], behind=[runs[:2]]) == [(1.25, 1.5), (3.25, 4.5), (2.25, 3.0)]
    behind, own = axis.lines
    assert [len(line.get_xdata()) for line in (behind, own)] == [2, 3]
    assert [len(dots.get_offsets()) for dots in axis.collections] == [2, 2, 2]


def test_accuracies_have_a_panel_for_each_method_and_subset(table: polars.DataFrame) -> None:
    axes = figures.downstream_by_subset(table).axes
    assert [axis.get_title() for axis in axes[:4]] == ["all variables", "active", "mixed", "passive"]
    assert len(axes) == 2 * 4
    # Random guess and both representations; behind a subset also the means of all variables.
    assert [len(axis.lines) for axis in axes[:4]] == [3, 4, 4, 4]


def test_aggregate_posterior_is_a_density() -> None:
    code = Encodings(np.zeros((5, 2)), variance=np.full((5, 2), 0.04))
    axis = figures.aggregate_posterior_density({"code": code}, resolution=201).axes[0]
    density = np.asarray(axis.images[0].get_array())
    assert density.sum() * (4 / 200) ** 2 == pytest.approx(1.0, abs=1e-3)
    assert np.unravel_index(density.argmax(), density.shape) == (100, 100)


def test_without_passive_has_a_point_at_every_strength(table: polars.DataFrame) -> None:
    figure = figures.metric_by_subset(table)
    titles = [axis.get_title() for axis in figure.axes]
    assert titles[:3] == ["BetaVAE: all variables", "BetaVAE: without passive", "BetaVAE: active"]
    strengths = table.filter(polars.col("method") == "BetaVAE")["strength"].n_unique()
    for line in figure.axes[1].lines:
        assert len(np.asarray(line.get_xdata())) == strengths
    older = table.filter(polars.col("variables") != "alive")
    assert len(figures.metric_by_subset(older).axes) == len(figure.axes) * 2 // 3


def test_scores_have_bands_over_seeds_and_strengths_at_equal_distances(table: polars.DataFrame) -> None:
    axes = figures.scores_against(table).axes
    # A column for each of two methods; rows: reconstruction, total correlation, strength.
    assert len(axes) == 2 * 3
    own, other = axes[-2:]
    assert [text.get_text() for text in own.get_xticklabels()] == ["1", "2", "4", "6", "8", "16"]
    assert [text.get_text() for text in other.get_xticklabels()] == ["10", "20", "30", "40", "50", "100"]
    assert {text.get_text() for text in axes[0].texts} == {"1", "16"}
    sap = table.filter((polars.col("metric") == "sap") & (polars.col("representation") == "mean"))
    values = sap.filter((polars.col("method") == "BetaVAE") & (polars.col("strength") == 4.0))["value"].to_numpy()
    edge = np.asarray(own.collections[0].get_paths()[0].vertices)
    assert np.ptp(edge[np.isclose(edge[:, 0], 2), 1]) == pytest.approx(np.subtract(*middle_range(values)[::-1]))
    assert axes[0].get_xlabel() == "reconstruction, nats"
    assert len({axis.get_ylim() for axis in axes}) == 1


def test_strengths_are_labelled_with_their_symbols(table: polars.DataFrame) -> None:
    figure = figures.reconstruction_against_score(table, score="sap", symbols={"BetaVAE": "β", "FactorVAE": "γ"})
    first, second = ({text.get_text() for text in axis.texts} for axis in figure.axes)
    assert first == {f"β {strength}" for strength in (1, 2, 4, 6, 8, 16)}
    assert second == {f"γ {strength}" for strength in (10, 20, 30, 40, 50, 100)}
    # Six strengths of three runs each, and the other method as one line behind.
    assert [len(axis.collections) for axis in figure.axes] == [6, 6]
    assert [len(axis.lines) for axis in figure.axes] == [2, 2]
    assert figure.axes[0].get_xlim() == figure.axes[1].get_xlim()


def test_a_prior_with_one_strength_is_in_every_panel(table: polars.DataFrame) -> None:
    alone = (polars.col("method") == "FactorVAE") & (polars.col("strength") == 10.0)
    few = table.filter((polars.col("method") == "BetaVAE") | alone)
    (axis,) = figures.reconstruction_against_score(few, score="sap", symbols={"FactorVAE": "γ"}).axes
    assert "γ 10" in {text.get_text() for text in axis.texts}


def test_labels_of_points_do_not_cover_the_line() -> None:
    """In pixels, no label covers a point of the line."""
    figure, (axis,) = panels(1, width=3, height=2.4)
    line = [(0.0, 0.1), (0.3, 0.9), (0.5, 0.2), (0.7, 0.8), (1.0, 0.15)]
    axis.plot(*zip(*line, strict=True))
    axis.set_xlim(-0.1, 1.1)
    axis.set_ylim(0, 1)
    name_points(axis, [(at, f"β {i}", "#000000") for i, at in enumerate(line)], line)
    figure.canvas.draw()
    steps = np.linspace(0, 1, 200)[:, None]
    corners = np.array(line)
    path = np.concatenate([a + steps * (b - a) for a, b in itertools.pairwise(corners)])
    pixels = axis.transData.transform(path)
    for text in axis.texts:
        box = text.get_window_extent()
        assert not any(box.contains(*pixel) for pixel in pixels), text.get_text()


def test_labels_of_points_at_the_edge_do_not_cover_the_axis() -> None:
    """In pixels, labels and their white edges are within the frame, though the line runs along the left axis."""
    figure, axes = panels(12, columns=4, width=1.7, height=1.75)
    axis = axes[7]
    line = [(0.07, 0.31), (0.61, 0.29), (0.05, 0.33), (0.01, 0.29), (0.01, 0.13)]
    axis.plot(*zip(*line, strict=True))
    axis.set_xlim(-0.13, 2.65)
    axis.set_ylim(0, 0.49)
    name_points(axis, [(line[0], "2", "#000000"), (line[-1], "50", "#000000")], line)
    figure.canvas.draw()
    frame, halo = axis.get_window_extent(), figure.dpi / 72
    for text in axis.texts:
        box = text.get_window_extent()
        assert frame.x0 < box.x0 - halo < box.x1 + halo < frame.x1, text.get_text()
        assert frame.y0 < box.y0 - halo < box.y1 + halo < frame.y1, text.get_text()


def test_the_clearest_mixed_variable_is_on_and_off() -> None:
    generator = np.random.default_rng(0)
    on = generator.random(2000) < 0.5
    # The second is nearly passive: off except for a few inputs, so its spread is large only relative to its maximum.
    rare = generator.random(2000) < 0.03
    mean = np.stack([np.where(on, generator.normal(0, 1, 2000), 0), np.where(rare, 4.0, 0)], axis=1)
    variance = np.stack([np.where(on, 0.05, 0.6), np.where(rare, 0.01, 1.0)], axis=1)
    regime = classify(Encodings(mean, variance=variance))
    assert regime.types == ("mixed", "mixed")
    assert regime.statistics.polarity[1] > regime.statistics.polarity[0]
    assert clearest(regime, "mixed") == 0


def test_marks_of_types_have_a_legend(diagnosis: Diagnosis) -> None:
    figure = figures.correlation_heatmap(diagnosis.encodings, diagnosis.regime)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["active", "mixed", "passive"]


@pytest.mark.parametrize(
    ("kind", "of", "count"), [("passive", "parameters", 3), ("active", "samples", 3), ("passive", "samples", 2)]
)
def test_posterior_and_prior_share_a_scale(diagnosis: Diagnosis, kind: Any, of: Any, count: int) -> None:
    axes = figures.posterior_and_prior(diagnosis.encodings, diagnosis.regime, kind=kind, of=of).axes
    assert len(axes) == count
    assert axes[-1].get_xlim() == axes[-2].get_xlim()


def test_classes_have_their_names(diagnosis: Diagnosis) -> None:
    figure = figures.magnitude_by_class(diagnosis.encodings, class_names=["square", "ellipse", "heart"])
    assert [text.get_text() for text in figure.axes[0].get_yticklabels()] == ["square", "ellipse", "heart"]
    assert figure.axes[1].get_ylabel() == "mean |μ|"
    with pytest.raises(DataError, match="a name for each"):
        figures.magnitude_by_class(diagnosis.encodings, class_names=["square"])


def test_cells_of_a_plane_are_means_over_seeds() -> None:
    rows = {"alpha": [1.0, 1.0, 0.0], "beta": [0.5, 0.5, 0.5], "metric": ["mmd"] * 3, "value": [0.2, 0.4, 7.0]}
    axis = figures.plane_of_strengths(polars.DataFrame(rows), metrics=("mmd",)).axes[0]
    assert {text.get_text(): text.get_position() for text in axis.texts} == {"7": (0, 0), "0.3": (0, 1)}


def test_types_are_distinguishable_without_colour() -> None:
    for looks in (TYPES, REPRESENTATIONS):
        assert len({(look.marker, look.hollow, look.dash) for look in looks.values()}) == len(looks)
        assert len({look.letter for look in looks.values()}) == len(looks)


@pytest.mark.parametrize("kind", ["light", "dark"])
def test_colours_of_text_have_contrast(kind: str) -> None:
    ground = {"light": "#ffffff", "dark": "#181c23"}[kind]
    for look in (*TYPES.values(), *REPRESENTATIONS.values()):
        assert contrast(getattr(look, kind), ground) >= 4.5


def contrast(colour: str, ground: str) -> float:
    """The contrast ratio of the Web Content Accessibility Guidelines."""

    def luminance(text: str) -> float:
        channels = np.array([int(text[i : i + 2], 16) / 255 for i in (1, 3, 5)])
        linear = np.where(channels <= 0.03928, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
        return float(linear @ [0.2126, 0.7152, 0.0722])

    dark, light = sorted((luminance(colour), luminance(ground)))
    return (light + 0.05) / (dark + 0.05)


def test_data_that_cannot_be_drawn_are_an_error(diagnosis: Diagnosis, table: polars.DataFrame) -> None:
    encodings, regime = diagnosis.encodings, diagnosis.regime
    plain = Encodings([[0.3, 0.0], [-1.1, 0.01]], variance=[[0.02, 1.0], [0.01, 0.98]])
    wrong: list[tuple[str, Callable[[], Any]]] = [
        ("expected rows of 'mig'", lambda: figures.metric_by_subset(table, metric="mig")),
        ("strength missing", lambda: figures.types_by_strength(table.drop("strength"))),
        ("two moments", lambda: figures.kl_over_training(Timeline())),
        ("two variables", lambda: figures.aggregate_posterior_density({"a": encodings})),
        ("expected a factor of", lambda: figures.latent_pairs(encodings, regime, factor="hue")),
        ("known factors", lambda: figures.factor_against_latent(plain, classify(plain))),
        ("two matrices", lambda: figures.factor_matrices(np.eye(3), np.eye(2), ["a"])),
        ("square grid", lambda: figures.prior_density({"a": np.ones(3)})),
        ("columns dimension", lambda: figures.estimator_bias(table)),
        ("images", lambda: figures.samples(np.zeros((3, 4, 4)))),
    ]
    for message, call in wrong:
        with pytest.raises(DataError, match=message):
            call()


def test_a_small_image_looks_the_same_in_fewer_bytes(tmp_path: Path) -> None:
    figure, (axis,) = panels(1)
    draw = np.random.default_rng(0)
    axis.scatter(*draw.normal(size=(2, 500)), c=draw.uniform(size=500), alpha=0.5)
    (whole,), (small,) = (save(figure, tmp_path / str(of), formats=["png"], small=of) for of in (False, True))
    assert small.stat().st_size < 0.5 * whole.stat().st_size
    figure.savefig(tmp_path / "same.png", dpi=150)
    with Image.open(tmp_path / "same.png") as one, Image.open(small) as other:
        assert other.mode == "P"
        pixels, fewer = (np.asarray(each.convert("RGB"), dtype=float) for each in (one, other))
    # One part in a hundred of the range of a colour, which is not visible.
    assert np.abs(pixels - fewer).mean() < 2.55


def test_many_variables_are_numbered_as_far_as_they_fit() -> None:
    draw = np.random.default_rng(0)
    encodings = Encodings(draw.normal(size=(50, 30)), variance=np.full((50, 30), 0.05))
    for axis in figures.overview(encodings, classify(encodings)).axes[:3]:
        assert 8 <= len(axis.get_xticks()) <= 16


def test_every_figure_and_gallery_has_a_title_a_reference_and_is_exported():
    known = registry.records("figure")
    assert {record.name for record in known} == {name for name in figures.__all__ if callable(getattr(figures, name))}
    for record in (*known, *registry.records("gallery")):
        assert record.title
        assert record.references
        assert set(record.references) <= set(bibliography())


def test_a_notebook_shows_types_in_the_colours_of_page_and_figures():
    assert {kind: look.light for kind, look in TYPES.items()} == COLOURS


def test_no_legend_or_caption_covers_another_part_of_the_figure():
    generator = np.random.default_rng(0)
    encodings = Encodings(generator.normal(size=(200, 4)), variance=np.full((200, 4), 0.02))
    model = SimpleNamespace(labels={"method": "iVAE", "strength": 8.0, "seed": 3})
    for draw in (figures.overview, figures.correlation_heatmap):
        figure = of_one_model(model, draw(encodings, classify(encodings)))
        figure.draw_without_rendering()
        below = figure.legends[0].get_window_extent()
        assert figure.legends[0].get_title().get_text() == "iVAE, strength 8, seed 3"
        assert not figure.get_supxlabel()
        assert all(below.y1 <= axis.get_window_extent().y0 for axis in figure.axes)
        assert all(axis.get_legend() is None for axis in figure.axes)
