import threading

import numpy as np
import pytest
from threadpoolctl import OpenBLASController, threadpool_info, threadpool_limits

from polarised import Evidence
from polarised._threads import in_two_threads, one_blas_thread
from polarised.errors import DataError
from polarised.metrics import _logistic
from polarised.regime import evidence as module


def blas_threads():
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


@pytest.fixture
def several():
    limit = threadpool_limits(2, user_api="blas")
    OpenBLASController.clear_controlling_thread(force=True)
    assert blas_threads() == {2}
    yield
    limit.restore_original_limits()


@pytest.fixture
def cores(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr("os.cpu_count", lambda: 2)


@pytest.mark.usefixtures("several")
def test_the_matrix_library_gets_its_threads_back_although_two_threads_of_ours_want_to_overlap():
    started, entered = threading.Event(), threading.Event()

    def hold():
        started.set()
        with one_blas_thread():
            entered.set()

    other = threading.Thread(target=hold)
    with one_blas_thread(), one_blas_thread():
        assert blas_threads() == {1}
        other.start()
        assert started.wait(30)
        assert not entered.wait(0.1), "two limits overlap"
    other.join()
    assert entered.is_set()
    assert blas_threads() == {2}


@pytest.mark.usefixtures("several", "cores")
@pytest.mark.parametrize("fails", [0, 1])
def test_an_error_of_either_thread_arrives_and_the_threads_are_given_back(fails):
    def work(mine):
        if mine == fails:
            raise ValueError("expected")
        return mine

    with pytest.raises(ValueError, match="expected"):
        in_two_threads(lambda: work(0), lambda: work(1))
    assert blas_threads() == {2}


@pytest.mark.usefixtures("cores")
def test_both_are_done_at_once_unless_one_thread_is_asked_for(monkeypatch):
    meeting = threading.Barrier(2, timeout=30)
    in_two_threads(meeting.wait, meeting.wait)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert in_two_threads(threading.get_ident, threading.get_ident) == 2 * (threading.get_ident(),)


@pytest.mark.parametrize("covers", [False, True])
@pytest.mark.usefixtures("cores")
def test_large_tables_have_the_same_evidence_with_one_thread_and_with_two(monkeypatch, covers):
    draws = np.random.default_rng(0)
    mean, variance = draws.standard_normal((6_000, 3)), draws.random((6_000, 3))
    variance[17, 1] = 0.0
    found = []
    for large in (mean.size + 1, mean.size):
        monkeypatch.setattr(module, "_LARGE", large)
        evidence = Evidence(covariance=covers)
        evidence.update(mean, variance=variance)
        found.append(evidence)
    for name in ("ratio_mean", "ratio_variance", "shift", "log_ratio", "variance_variance", "mean_variance"):
        one, two = (getattr(each.statistics(), name) for each in found)
        np.testing.assert_array_equal(one, two)
    if covers:
        np.testing.assert_array_equal(found[0].covariance, found[1].covariance)
    np.testing.assert_allclose(found[1].statistics().mean_variance, mean.var(0), rtol=1e-12)


@pytest.mark.usefixtures("cores")
@pytest.mark.parametrize(("value", "expected"), [(-1e-3, "1 negative entries"), (np.nan, "finite"), (np.inf, "finite")])
def test_an_invalid_variance_in_a_large_table_is_refused(monkeypatch, value, expected):
    monkeypatch.setattr(module, "_LARGE", 1)
    mean, variance = np.zeros((200, 2)), np.ones((200, 2))
    variance[150, 1] = value
    evidence = Evidence()
    with pytest.raises(DataError, match=expected):
        evidence.update(mean, variance=variance)
    assert evidence.latents is None


@pytest.mark.usefixtures("several")
@pytest.mark.parametrize("fit", [_logistic.linear_classifier, _logistic.cross_validated_classifier])
def test_logistic_regression_keeps_its_products_on_one_core(monkeypatch, fit):
    seen, minimise = [], _logistic.minimise

    def watched(*arguments, **settings):
        seen.append(blas_threads())
        return minimise(*arguments, **settings)

    monkeypatch.setattr(_logistic, "minimise", watched)
    draws = np.random.default_rng(0)
    codes = draws.standard_normal((90, 2))
    more = {} if fit is _logistic.linear_classifier else {"strengths": (0.1, 1.0), "folds": 3}
    fit(codes, (codes[:, 0] > 0).astype(int), multiclass="multinomial", **more)
    assert seen
    assert all(threads == {1} for threads in seen)
    assert blas_threads() == {2}
