"""All outputs have the same types of a model's variables: run, table, headline, page, prune, snapshots."""

import json
import re
from pathlib import Path

import numpy as np
import polars
import pytest

import polarised as po
from polarised.pruning import prune_model
from polarised.regime.timeline import load_timeline
from polarised.study import Run, execute

LATENTS = 10
# The decoder gains little, so some variables stay at rest: at 0.048, which the published rule calls active.
CONFIG = {
    "dataset": {"name": "dsprites", "size": 32},
    "model": {
        "architecture": {"name": "mlp", "widths": [64]},
        "latents": LATENTS,
        "likelihood": {"name": "Bernoulli", "weight": 0.1},
    },
    "objective": {"name": "RTCVAE", "beta": 2.0, "critic_layers": 1, "critic_width": 32, "critic_learning_rate": 0.001},
    "training": {"steps": 800, "learning_rate": 0.005, "schedule": {"name": "cosine", "hold": 0.5}},
    "evaluation": {"examples": 1000},
    "snapshots": {"every": 800, "examples": 1000},
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return execute(Run.from_config(CONFIG), tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def diagnosis(run: Path) -> po.Diagnosis:
    return po.diagnose(run)


def test_the_run_and_its_diagnosis(run, diagnosis):
    stored = polars.read_parquet(run / "regime.parquet").sort("variable")
    types = diagnosis.regime.types
    assert {"active", "passive"} <= set(types)
    assert tuple(stored["type"]) == types == tuple(diagnosis.regime.table()["type"])
    assert tuple(stored["why"]) == diagnosis.regime.why
    counts = [types.count(kind) for kind in ("active", "mixed", "passive")]
    said = [0 if word.lower() == "none" else int(word) for word in re.findall(r"None|none|\d+", diagnosis.headline)]
    assert [said[0], *said[2:4]] == counts
    scores = polars.read_parquet(run / "scores.parquet").filter(
        (polars.col("metric") == "count") & (polars.col("rule") == "used")
    )
    assert {kind: int(value) for kind, value in scores.select("variables", "value").iter_rows() if value} == {
        kind: count for kind, count in zip(("active", "mixed", "passive"), counts, strict=True) if count
    }


def test_the_published_rule_is_reported_and_differs(diagnosis):
    standard = diagnosis.regime.types_at(0.1, rule="standard")
    parted = [j for j, kind in enumerate(diagnosis.regime.types) if kind != standard[j]]
    assert [j for j in diagnosis.regime.passive if standard[j] == "active"]
    sentences = [
        sentence for sentence in diagnosis.advice if sentence.startswith("The published (standard) rule differs")
    ]
    assert len(sentences) == 1
    assert all(str(j) in sentences[0] for j in parted)
    assert "total correlation" in sentences[0]


def test_the_page_and_the_record(diagnosis, tmp_path):
    page = diagnosis.report(tmp_path / "page.html").read_text()
    for words in diagnosis.regime.why:
        assert json.dumps(words, ensure_ascii=False)[1:-1] in page or words in page
    record = diagnosis.to_dict()
    assert [row["type"] for row in record["variables"]] == list(diagnosis.regime.types)


def test_snapshots_use_the_decoder(run, diagnosis):
    timeline = load_timeline(run / "snapshots.npz")
    settled = [j for j in range(LATENTS) if j not in (*diagnosis.regime.doubtful, *diagnosis.regime.fragile)]
    assert len(settled) >= 4
    assert [timeline.types[-1][j] for j in settled] == [diagnosis.regime.types[j] for j in settled]
    assert {timeline.types[-1][j] for j in settled} >= {"active", "passive"}


def test_prune_takes_out_what_the_diagnosis_calls_passive_beyond_doubt(run, diagnosis):
    pruned = prune_model(run, examples=300)
    kept = [j for j in range(LATENTS) if j not in diagnosis.regime.droppable]
    assert 0 < len(kept) < LATENTS
    assert pruned.model.latents == len(kept)


def test_a_transformer_uses_the_types_of_the_diagnosis(diagnosis):
    chosen = po.ActiveVariables().fit(diagnosis.regime)
    assert chosen.get_support(indices=True).tolist() == diagnosis.regime.alive
    np.testing.assert_array_equal(
        chosen.transform(diagnosis.encodings.mean), diagnosis.encodings.mean[:, diagnosis.regime.alive]
    )
