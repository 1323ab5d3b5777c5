import re
from pathlib import Path
from typing import Any

import pytest

from polarised.errors import ConfigError
from polarised.study.grid import load_study, study_names
from study.workshop import study_config, write_study

METHODS: dict[str, Any] = {
    "A": {"objective": {"name": "BetaVAE"}, "axes": {"strength": {"objective.beta": [1, 2, 3]}}},
    "B": {
        "objective": {"name": "DIPVAE"},
        "training": {"steps": 9},
        "axes": {"strength": {"objective.lambda_od": [1, 2], "objective.lambda_d": [10, 20]}},
    },
}


def study_file(tmp_path: Path, **parts: Any) -> Path:
    config = study_config()
    config["base"].pop("objective")
    return write_study(tmp_path / "own.yaml", {**config, **parts})


def test_linked_values_and_order(tmp_path: Path) -> None:
    study = load_study(study_file(tmp_path, axes={"seed": 2, "method": METHODS}))
    labels = [(p.labels["seed"], p.labels["method"], p.labels["strength"]) for p in study.points]
    grid = [("A", 1), ("A", 2), ("A", 3), ("B", 1), ("B", 2)]
    assert labels == [(seed, *point) for seed in (0, 1) for point in grid]
    last = study.points[-1].run
    assert (last.objective["lambda_od"], last.objective["lambda_d"], last.training.steps) == (2.0, 20.0, 9)
    assert study.points[0].run.training.steps == 12
    assert len({run.name for run in study.runs}) == 10


def test_a_scale_overrides_base_and_axes(tmp_path: Path) -> None:
    scales = {
        "big": {"base": {"training": {"steps": 99}}, "axes": {"seed": 3, "method": {"A": {"model": {"latents": 4}}}}}
    }
    file = study_file(tmp_path, axes={"seed": 1, "method": METHODS}, scales=scales)
    study = load_study(file, scale="big")
    assert len(study.points) == 15
    first, last = study.points[0].run, study.points[-1].run
    assert (first.training.steps, first.model["latents"]) == (99, 4)
    assert (last.training.steps, last.model["latents"]) == (9, 3)
    with pytest.raises(ConfigError, match=r"no scale 'bgi' .did you mean 'big'"):
        load_study(file, scale="bgi")


def test_additional_settings_take_precedence(tmp_path: Path) -> None:
    file = study_file(tmp_path, axes={"seed": 5, "method": METHODS})
    study = load_study(
        file, settings=["axes.seed=1", "training.steps=3", "axes.method.A.axes.strength={objective.beta: [7]}"]
    )
    assert len(study.points) == 3
    assert {run.training.steps for run in study.runs} == {3}
    assert study.points[0].run.objective["beta"] == 7.0


def test_a_new_name_replaces_the_whole_spec(tmp_path: Path) -> None:
    config = study_config()
    config["base"]["objective"] = {"name": "BetaVAE", "beta": 3}
    config["axes"] = {"method": {"tc": {"objective": {"name": "FactorVAE"}}}}
    assert "beta" not in load_study(write_study(tmp_path / "s.yaml", config)).points[0].run.objective


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"axis": {}}, "no 'axis' .did you mean 'axes'"),
        ({"axes": {"seed": "many"}}, "axis 'seed'"),
        ({"axes": {"strength": {"objective.a": [1], "objective.b": [1, 2]}}}, "lists of equal length"),
        ({"axes": {"objective.name": ["BetaVEA"]}}, "BetaVEA"),
        ({"axes": {"seed": []}}, "no run"),
        ({"rule": "other", "axes": {"seed": 1}}, "relative or standard"),
    ],
)
def test_errors_in_a_study_are_named(tmp_path: Path, parts: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        load_study(study_file(tmp_path, **parts))


def test_unknown_study_suggests_the_nearest() -> None:
    with pytest.raises(ConfigError, match="did you mean 'be_more_active'"):
        load_study("be_more_activ")


@pytest.mark.parametrize("name", study_names())
def test_every_study_of_the_library_expands_at_every_scale(name: str) -> None:
    import yaml

    from polarised.study import grid

    text = (Path(grid.__file__).parents[1] / "studies" / f"{name}.yaml").read_text()
    for scale in yaml.safe_load(text).get("scales", {}):
        assert load_study(name, scale=scale, settings=["axes.seed=1"]).points


def test_be_more_active_is_the_published_grid() -> None:
    laptop, paper = load_study("be_more_active", scale="laptop"), load_study("be_more_active", scale="paper")
    assert (len(laptop.points), len(paper.points)) == (300, 4500)
    strengths = {p.labels["method"]: set() for p in laptop.points}  # type: ignore[var-annotated]
    for point in laptop.points:
        strengths[point.labels["method"]].add(point.labels["strength"])
    assert strengths["annealed VAE"] == {5, 10, 25, 50, 75, 100}
    assert strengths["beta-TCVAE"] == {1, 2, 4, 6, 8, 10}
    # Seed by seed, so that a part of the study is the whole grid with fewer seeds.
    assert {point.labels["seed"] for point in laptop.points[:30]} == {0}
    assert {run.training.steps for run in paper.runs} == {300_000}


def test_the_documentation_counts_the_models() -> None:
    text = (Path(__file__).parents[2] / "docs" / "howto" / "reproduce_the_other_papers.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \|.*\| (\d+) \|$", text, flags=re.MULTILINE)
    assert len(rows) == 6
    for name, models in rows:
        assert len(load_study(name, scale="small").points) == int(models), name


def test_paper_and_released_code_are_distinguished() -> None:
    """The label of the axis is part of that of the dataset, by which tables, figures and verdicts are grouped."""
    study = load_study("decomposition_clustering", scale="smoke")
    ways = {
        (p.labels["compatibility"], p.labels["dataset"]): p.run.model["prior"]["compatibility"] for p in study.points
    }
    assert ways == {
        ("paper", "pinwheel, paper"): "none",
        ("released code", "pinwheel, released code"): "released-code",
    }
    assert len({point.run.name for point in study.points}) == len(study.points)


def test_the_celeba_scale_has_every_printed_setting() -> None:
    """Appendix B of [Mathieu2019]: table 1c, γ 0.9, batches of 256, 2e-4, Adam (0.5, 0.999), 60 epochs, 3 runs."""
    study = load_study("decomposition_sparsity", scale="celeba")
    assert {point.labels["method"] for point in study.points} == {"γ 0, β 1", "γ 0.9, β 1", "γ 0.9, β 5"}
    assert {point.labels["seed"] for point in study.points} == {0, 1, 2}
    for point in study.points:
        run = point.run
        assert (run.dataset["name"], run.dataset["size"], run.dataset["split"]) == ("celeba", 64, "train")
        assert (run.model["architecture"]["name"], run.model["latents"]) == ("dcgan", 50)
        assert run.model["prior"]["width"] == 0.05
        assert run.model["prior"]["gamma"] == (0.0 if point.labels["method"] == "γ 0, β 1" else 0.9)
        training = run.training
        assert (training.batch_size, training.learning_rate, training.betas) == (256, 2e-4, (0.5, 0.999))
        assert abs(training.steps * 256 - 60 * 162_770) < 256
        printed = point.labels["compatibility"] == "paper"
        assert run.objective["distance"] == ("printed" if printed else "squared")
        assert run.objective["compatibility"] == ("none" if printed else "released-code")


def test_the_fashion_mnist_scale_is_the_released_code_shortened() -> None:
    released, short = (load_study("decomposition_sparsity", scale=scale) for scale in ("paper", "fashion_mnist"))
    for name in ("dataset", "model", "objective"):
        assert all(getattr(run, name) in [getattr(other, name) for other in released.runs] for run in short.runs)
    assert len({point.labels["seed"] for point in short.points}) >= 6


@pytest.mark.parametrize(
    ("study", "methods", "settings"),
    [
        (
            "be_more_active",
            {"FactorVAE"},
            {
                "dsprites, paper": ("none", 300_000, 1e-4),
                "dsprites, released code": ("disentanglement_lib", 150_000, 1e-4),
            },
        ),
        (
            "decomposition_alignment",
            {"anisotropic, PCA", "anisotropic, learned"},
            {"dsprites, paper": ("none", 230_400, 1e-4), "dsprites, released code": ("released-code", 230_400, 5e-4)},
        ),
    ],
)
def test_released_code_and_paper_are_values_of_an_axis(
    study: str, methods: set[str], settings: dict[str, tuple[str, int, float]]
) -> None:
    points = load_study(study, scale="released").points
    assert {point.labels["method"] for point in points} == methods
    found = {}
    for point in points:
        run = point.run
        chosen = run.objective.get("compatibility", run.model["prior"].get("compatibility"))
        found[point.labels["dataset"]] = (chosen, run.training.steps, run.training.learning_rate)
    assert found == settings
