import numpy as np
import pytest

from polarised import metrics
from polarised.errors import ConfigError, DataError
from polarised.metrics import _draws
from polarised.metrics._boosting import boosted_trees_fit


def perfect(rows: int = 900, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    factors = generator.integers([3, 4], size=(rows, 2))
    return factors + 0.01 * generator.normal(size=(rows, 2)), factors


def test_one_variable_a_factor_scores_one() -> None:
    z, factors = perfect()
    assert metrics.mig(z, factors) == pytest.approx(1.0, abs=0.01)
    assert metrics.sap(z, factors).score > 0.35
    assert metrics.modularity(z, factors) > 0.99
    assert metrics.explicitness(z, factors).score > 0.75
    assert metrics.irs(z, factors).score > 0.95
    dci = metrics.dci(z, factors)
    assert min(dci.disentanglement, dci.completeness, dci.informativeness) > 0.98
    mec = metrics.infomec(z, factors)
    assert min(mec.modularity, mec.compactness) > 0.9
    assert metrics.mcc(z, factors.astype(float)).score > 0.99


def test_a_rotation_spreads_factors_over_variables() -> None:
    z, factors = perfect()
    turned = (z - z.mean(axis=0)) @ np.array([[1.0, -1.0], [1.0, 1.0]])
    assert metrics.mig(turned, factors) < 0.3
    assert metrics.dci(turned, factors).disentanglement < 0.5
    assert metrics.mcc(turned, factors.astype(float)).score < 0.9


def test_histogram_trees_agree_with_exact_ones() -> None:
    generator = np.random.default_rng(2)
    z = generator.normal(size=(900, 4))
    factors = np.column_stack([z[:, 0] + 0.3 * z[:, 1] > 0, np.digitize(z[:, 2] + 0.2 * z[:, 3], [-0.5, 0.5])])
    quick, exact = metrics.dci(z, factors.astype(int)), metrics.dci(z, factors.astype(int), trees="exact")
    assert quick.disentanglement == pytest.approx(exact.disentanglement, abs=0.03)
    assert quick.completeness == pytest.approx(exact.completeness, abs=0.03)
    assert quick.informativeness == pytest.approx(exact.informativeness, abs=0.02)


def test_disintegration_names_the_factor_carried_twice() -> None:
    generator = np.random.default_rng(0)
    z = generator.normal(size=(2000, 3))
    factors = np.column_stack([np.digitize(z[:, 0] + z[:, 1], [-1, 0, 1]), np.digitize(z[:, 2], [-1, 0, 1])])
    table = metrics.disintegration(z, factors, factor_names=("hue", "size"))
    assert table["factor"].to_list() == ["hue", "size"]
    assert table["disintegrated"].to_list() == [True, False]
    assert sorted(table["variables"][0]) == [0, 1]
    assert table["variables"][1].to_list() == [2]
    both_copies = metrics.disintegration(np.column_stack([z[:, 2], z[:, 2]]), factors[:, 1])
    assert both_copies["disintegrated"].to_list() == [False]
    assert metrics.disintegration(z, factors, measure="nmi").height == 2
    with pytest.raises(ConfigError, match="factor_names"):
        metrics.disintegration(z, factors, factor_names=("hue",))


def test_mcc_finds_permuted_scaled_sources() -> None:
    generator = np.random.default_rng(0)
    sources = generator.laplace(size=(500, 3))
    z = np.column_stack([generator.normal(size=500), -2 * sources[:, 1], sources[:, 2] ** 3, 5 * sources[:, 0]])
    found = metrics.mcc(z, sources, method="spearman")
    assert found.assignment.tolist() == [3, 1, 2]
    assert found.score == pytest.approx(1.0)
    assert metrics.mcc(z, sources).score < 0.999
    fewer = metrics.mcc(z[:, 1:2], sources)
    assert fewer.assignment.tolist() == [-1, 0, -1]


def test_votes_depend_only_on_the_seed() -> None:
    def represent(rows: np.ndarray) -> np.ndarray:
        return np.column_stack([rows[:, 0] + rows[:, 1], rows[:, 1], np.full(len(rows), 3.0)]).astype(np.float32)

    first = metrics.factor_vae_score(represent, (5, 4), train_votes=600, test_votes=300, seed=1)
    again = metrics.factor_vae_score(represent, (5, 4), train_votes=600, test_votes=300, seed=1)
    published = metrics.factor_vae_score(
        represent, (5, 4), train_votes=600, test_votes=300, seed=1, reference_stream=True
    )
    assert np.array_equal(first.votes, again.votes)
    assert first.kept.tolist() == [0, 1]
    assert first.votes.sum() == 300
    assert first.score == pytest.approx(published.score, abs=0.1)
    assert (
        metrics.factor_vae_score(lambda rows: np.zeros((len(rows), 2)), (5, 4), train_votes=9, test_votes=9).score == 0
    )


def test_our_draws_cover_all_values_evenly() -> None:
    seen: list[np.ndarray] = []

    def represent(rows: np.ndarray) -> np.ndarray:
        seen.append(rows)
        return rows.astype(float)

    metrics.factor_vae_score(represent, (3, 40), train_votes=100, test_votes=10)
    rows = seen[0]
    assert np.bincount(rows[:, 0]).tolist() == pytest.approx([len(rows) / 3] * 3, rel=0.1)
    assert np.bincount(rows[:, 1]).min() > 0.7 * len(rows) / 40
    assert rows[:, 1].max() == 39


@pytest.mark.parametrize("sizes", [(3, 4), (7,), (20, 300, 2), (1, 5, 2), (4097, 2), (2**16,)])
@pytest.mark.parametrize(("kind", "variables"), [("float32", 11), ("float64", 3)])
def test_votes_from_a_table_are_those_of_its_function(
    sizes: tuple[int, ...], kind: str, variables: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    grid = np.indices(sizes).reshape(len(sizes), -1).T
    codes = np.random.default_rng(0).normal(size=(len(grid), variables)).astype(kind)
    codes += grid[:, -1:]
    table, found = metrics.represent_by_lookup(codes, grid)
    assert found == sizes
    # 1,100 votes are three blocks, the last of them a short one.
    votes = {"train_votes": 1100, "test_votes": 400, "batch_size": 8, "seed": 3}
    ours = metrics.factor_vae_score(table, sizes, **votes)
    with monkeypatch.context() as patch:
        patch.setattr(_draws, "_TOGETHER", 1)
        np.testing.assert_array_equal(metrics.factor_vae_score(table, sizes, **votes).votes, ours.votes)
    asked = metrics.factor_vae_score(lambda rows: table(rows), sizes, **votes)
    assert (ours.score, ours.train) == (asked.score, asked.train)
    if len(sizes) > 1:
        # Batches that agree on the only factor have equal codes, so that rounding alone decides the votes.
        np.testing.assert_array_equal(ours.votes, asked.votes)
    points = {"train_points": 1100, "test_points": 400, "batch_size": 8, "seed": 3}
    for protocol in ("reference", "modern"):
        ours_score = metrics.beta_vae_score(table, sizes, protocol=protocol, **points)
        assert ours_score == metrics.beta_vae_score(lambda rows: table(rows), sizes, protocol=protocol, **points)
    np.testing.assert_array_equal(table.codes, codes)


@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_a_constant_variable_does_not_vote(kind: str) -> None:
    # The rounded mean of many equal codes differs from them.
    constant = np.float64(0.1) if kind == "float64" else np.float32(0.1)
    assert np.full((10_000, 2), constant).var(axis=0).max() > 0

    def represent(rows: np.ndarray) -> np.ndarray:
        return np.column_stack([rows, np.full(len(rows), constant)]).astype(kind)

    found = metrics.factor_vae_score(represent, (3, 6, 8), train_votes=300, test_votes=200)
    assert found.kept.tolist() == [0, 1, 2]
    assert found.score == 1.0
    with pytest.raises(ConfigError, match="variance_rows must be at least 2"):
        metrics.factor_vae_score(represent, (3, 6, 8), variance_rows=1)


def test_half_precision_scores_like_single_precision() -> None:
    # In half precision, sums of squares of such codes overflow.
    grid = np.indices((3, 6, 8)).reshape(3, -1).T
    codes = (grid + 100).astype(np.float16)
    votes = {"train_votes": 300, "test_votes": 200, "batch_size": 8}
    scores = [
        metrics.factor_vae_score(represent, sizes, **votes).score
        for kind in (np.float16, np.float32)
        for represent, sizes in [metrics.represent_by_lookup(codes.astype(kind), grid)]
    ]
    asked = metrics.factor_vae_score(lambda rows: (rows + 100).astype(np.float16), (3, 6, 8), **votes).score
    assert [*scores, asked] == [1.0, 1.0, 1.0]


def test_sizes_beyond_those_of_the_look_up_are_refused() -> None:
    grid = np.indices((2, 6)).reshape(2, -1).T
    table, _ = metrics.represent_by_lookup(grid + 0.0, grid)
    for sizes in ((3, 4), (2,)):
        with pytest.raises(ConfigError, match=r"factor_sizes must be those of the look-up, \(2, 6\), or smaller"):
            metrics.factor_vae_score(table, sizes)


def test_codes_of_a_function_are_not_changed() -> None:
    codes = np.arange(12.0).reshape(12, 1)
    kept: list[np.ndarray] = []

    def represent(rows: np.ndarray) -> np.ndarray:
        kept.append(codes.take(rows @ [4, 1], axis=0))
        before.append(kept[-1].copy())
        return kept[-1]

    before: list[np.ndarray] = []
    metrics.factor_vae_score(represent, (3, 4), train_votes=9, test_votes=9)
    metrics.beta_vae_score(represent, (3, 4), train_points=90, test_points=9)
    for now, then in zip(kept, before, strict=True):
        np.testing.assert_array_equal(now, then)


def test_a_table_is_checked_like_a_function() -> None:
    grid = np.indices((3, 4)).reshape(2, -1).T
    damaged, sizes = metrics.represent_by_lookup(np.full((12, 2), np.nan), grid)
    with pytest.raises(DataError, match="finite"):
        metrics.beta_vae_score(damaged, sizes)
    # As the encoder of other sizes, or in another order of draws, it is a function like any other.
    table, _ = metrics.represent_by_lookup(np.random.default_rng(0).normal(size=(12, 2)), grid)
    few = {"train_points": 60, "test_points": 50}
    for sizes, reference in (((3, 2), False), ((3, 4), True)):
        ours, asked = (
            metrics.beta_vae_score(represent, sizes, reference_stream=reference, **few)
            for represent in (table, lambda rows: table(rows))
        )
        assert ours == asked
    with pytest.raises(ConfigError, match="at least 1 vote or point"):
        metrics.factor_vae_score(table, (3, 4), test_votes=0)
    empty, sizes = metrics.represent_by_lookup(np.zeros((12, 0)), grid)
    assert metrics.beta_vae_score(empty, sizes, **few) == metrics.beta_vae_score(lambda rows: empty(rows), sizes, **few)
    with pytest.raises(DataError, match="factors must be indices"):
        metrics.represent_by_lookup(np.zeros((0, 2)), np.zeros((0, 2), dtype=int))


def test_invalid_codes_of_an_encoder_are_refused() -> None:
    with pytest.raises(DataError, match="represent must map"):
        metrics.factor_vae_score(lambda rows: np.zeros(3), (2, 2))
    with pytest.raises(DataError, match="finite"):
        metrics.beta_vae_score(lambda rows: np.full((len(rows), 2), np.nan), (2, 2))
    with pytest.raises(ConfigError, match="factor_sizes"):
        metrics.factor_vae_score(lambda rows: rows, ())
    with pytest.raises(ConfigError, match="batch_size"):
        metrics.factor_vae_score(lambda rows: rows, (2,), batch_size=1)


@pytest.mark.parametrize("name", ["mig", "sap", "dci", "modularity", "explicitness", "irs", "infomec"])
def test_edges(name: str) -> None:
    metric = getattr(metrics, name)
    z, factors = perfect(120)
    single = np.zeros(120, dtype=int)
    rare = factors[:, 0].copy()
    rare[rare == 2] = 1
    rare[-1], rare[0] = 7, 9
    cases = {
        "one variable": (z[:, :1], factors),
        "one factor": (z, factors[:, 0]),
        "a factor with one value": (z, np.column_stack([factors[:, 0], single])),
        "only a factor with one value": (z, single),
        "a constant variable": (np.column_stack([z, np.full(120, 0.1)]), factors),
        "nothing but constants": (np.full((120, 3), 0.1), factors),
        "classes missing in train or test": (z, rare),
        "two classes": (z, factors[:, 0] // 2),
    }
    for case, arrays in cases.items():
        result = metric(*arrays)
        scores = [score for score in (result if isinstance(result, tuple) else (result,)) if isinstance(score, float)]
        assert np.isfinite(scores).all(), case
        assert all(-1e-9 <= score <= 1 + 1e-9 for score in scores), (case, result)


@pytest.mark.parametrize("name", ["mig", "sap", "dci", "modularity", "explicitness", "irs", "infomec", "r2_matrix"])
def test_codes_and_factors_of_different_rows_are_refused(name: str) -> None:
    metric = getattr(metrics, name)
    z, factors = perfect(60)
    with pytest.raises(DataError, match="rows"):
        metric(z, factors[:-1])
    with pytest.raises(DataError, match="whole-number classes"):
        metric(z, factors + 0.5)
    with pytest.raises(DataError, match="finite"):
        metric(np.full_like(z, np.nan), factors)


@pytest.mark.parametrize("name", ["sap", "dci", "explicitness"])
def test_a_split_without_test_rows_is_refused(name: str) -> None:
    z, factors = perfect(60)
    with pytest.raises(ConfigError, match="n_train"):
        getattr(metrics, name)(z, factors, n_train=60)


def test_cosine_and_sine_of_a_factor_are_dependent_and_not_a_disintegration() -> None:
    generator = np.random.default_rng(1)
    angle = generator.integers(40, size=4000)
    turned = 2 * np.pi * angle / 40
    z = np.column_stack([np.cos(turned), np.sin(turned)]) + 0.05 * generator.normal(size=(4000, 2))
    assert abs(np.corrcoef(z.T)[0, 1]) < 0.05
    table = metrics.disintegration(z, angle, measure="nmi")
    assert sorted(table["variables"][0]) == [0, 1]
    assert table["disintegrated"].to_list() == [False]
    assert table["independent"][0].len() == 1


def test_a_copy_of_one_carrier_does_not_hide_a_disintegration() -> None:
    generator = np.random.default_rng(2)
    z = generator.normal(size=(3000, 2))
    factor = np.digitize(z.sum(axis=1), [-1, 0, 1])
    echo = z[:, 0] + 0.3 * generator.normal(size=3000)
    table = metrics.disintegration(np.column_stack([z, echo]), factor)
    assert len(table["variables"][0]) == 3
    assert table["disintegrated"].to_list() == [True]
    assert sorted(table["independent"][0]) in ([0, 1], [1, 2])
    assert metrics.disintegration(np.column_stack([z, echo]), factor, used=[0, 2])["disintegrated"].to_list() == [False]
    with pytest.raises(ConfigError, match="used"):
        metrics.disintegration(z, factor, used=[5])


@pytest.mark.parametrize(("classes", "rows", "error"), [(2, 300, 0.02), (4, 900, 0.01)])
def test_the_error_of_histograms_is_as_documented(classes: int, rows: int, error: float) -> None:
    generator = np.random.default_rng(0)
    sources = generator.normal(size=(rows, 3))
    mixing = np.eye(3, 6) + 0.3 * generator.normal(size=(3, 6))
    z = np.tanh(sources) @ mixing + 0.2 * generator.normal(size=(rows, 6))
    factors = (sources > 0).astype(int) if classes == 2 else np.digitize(sources, [-0.7, 0, 0.7])
    exact, quick = (metrics.dci(z, factors, trees=trees)[:3] for trees in ("exact", "histogram"))
    assert quick == pytest.approx(exact, abs=error)
    assert quick != exact


def test_trees_are_exact_for_binary_factors_and_few_rows() -> None:
    generator = np.random.default_rng(3)
    z = generator.normal(size=(1800, 3))
    binary = (z[:, :1] > 0).astype(int)
    many = np.digitize(z[:, :1], [-1, 0, 1])
    for codes, factors in ((z, binary), (z[:300], many[:300])):
        ours, exact, quick = (metrics.dci(codes, factors, trees=trees) for trees in ("auto", "exact", "histogram"))
        # Only ties between variables may be resolved differently: the order of columns must not matter.
        np.testing.assert_allclose(ours.importance, exact.importance, atol=2e-3)
        assert ours.informativeness == pytest.approx(exact.informativeness, abs=1e-9)
        assert not np.array_equal(ours.importance, quick.importance)
    assert np.array_equal(metrics.dci(z, many).importance, metrics.dci(z, many, trees="histogram").importance)


def test_trees_of_many_rare_classes_stay_finite() -> None:
    # A leaf of rows whose class is certain has a Newton step beyond single precision.
    generator = np.random.default_rng(1)
    labels = np.repeat(np.arange(600), 6)
    codes = np.stack([labels / 200, generator.normal(size=len(labels))], axis=1)
    result = boosted_trees_fit(codes, labels, codes[::7], trees="histogram", stages=20)
    assert np.isfinite(result.importance).all()
    assert result.importance.sum() == pytest.approx(1)


def test_votes_are_pruned_relative_to_the_prior() -> None:
    scales = np.array([0.01, 1.0])
    few = {"train_votes": 200, "test_votes": 100}
    plain = metrics.factor_vae_score(lambda rows: rows + 0.0, (5, 4), scale=np.ones(2), **few)
    small = metrics.factor_vae_score(lambda rows: rows * scales, (5, 4), scale=scales, **few)
    assert small.score == plain.score
    assert small.kept.tolist() == [0, 1]
    reference = metrics.factor_vae_score(lambda rows: rows * scales, (5, 4), scale=1.0, **few)
    assert reference.kept.tolist() == [1]
    with pytest.raises(ConfigError, match="scale"):
        metrics.factor_vae_score(lambda rows: rows + 0.0, (5, 4), scale=np.ones(3), **few)
