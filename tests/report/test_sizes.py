import numpy as np
import pytest

from polarised.regime import Encodings, classify
from polarised.regime.dimensions import Fondue, Visit, one_shot_count
from polarised.report.figures import sizes


@pytest.fixture(scope="module")
def regimes():
    generator = np.random.default_rng(0)
    mean = generator.standard_normal((200, 3)) * [0.02, 1.0, 1.0]
    return [classify(Encodings(mean * scale, variance=np.tile([1.0, 0.01, 0.05], (200, 1)))) for scale in (1.0, 0.9)]


def test_variables_are_drawn_by_what_they_cost(regimes):
    figure = sizes(regimes, one_shot_count(regimes), seed=7)
    (axis,) = figure.axes
    first, second, line = axis.lines
    np.testing.assert_allclose(first.get_ydata(), np.sort(regimes[0].statistics.kl)[::-1])
    np.testing.assert_allclose(second.get_ydata(), np.sort(regimes[1].statistics.kl)[::-1])
    assert line.get_xdata()[0] == 2.5
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["seed 7", "seed 8"]


def test_the_search_is_drawn_in_order_of_size(regimes):
    search = Fondue(2, (Visit(4, 3.0, 1.5), Visit(2, 2.0, 1.9)))
    axis = sizes(regimes, one_shot_count(regimes), search).axes[1]
    curves = {line.get_label(): line.get_ydata().tolist() for line in axis.lines[:2]}
    assert curves == {"mean": [1.9, 1.5], "sampled": [2.0, 3.0]}
    assert axis.get_title() == "FONDUE: 2"
