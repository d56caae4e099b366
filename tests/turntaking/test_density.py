"""The hazards are a proper density, and fitting finds one that is known."""

import numpy as np
import pytest

from spear_ray.turntaking.context import GROUPS, columns_of, hats, table_of
from spear_ray.turntaking.density import (
    BASIS,
    NODES_S,
    SCALE_OFFSET_S,
    StateModel,
    integration,
    interpolation,
    place,
)
from spear_ray.turntaking.fitting import fit_state
from spear_ray.turntaking.sojourns import sojourns

from .talk import talk


def constant_hazards(*rates: float) -> StateModel:
    theta = np.zeros((2, 1, BASIS.shape[1]))
    theta[:, 0] = np.log(rates)[:, None]
    return StateModel(theta)


def test_the_splines_are_a_partition_of_one():
    np.testing.assert_allclose(BASIS.sum(axis=1), 1.0)


def test_constant_hazards_give_the_exponential_density():
    lengths = np.array([0.0, 0.01, 0.3, 2.0, 39.0, 55.0])
    model, ones = constant_hazards(0.5, 0.25), np.ones((6, 1))
    cut_off = model.nll(ones, lengths, np.full(6, -1))
    np.testing.assert_allclose(cut_off, 0.75 * lengths, rtol=1e-9, atol=1e-12)
    ended = model.nll(ones, lengths, np.ones(6))
    np.testing.assert_allclose(ended, 0.75 * lengths - np.log(0.25) - np.log(lengths + SCALE_OFFSET_S), rtol=1e-9)


def test_the_density_of_both_ends_integrates_to_one():
    rng = np.random.default_rng(0)
    model = StateModel(rng.normal(-0.5, 0.7, (2, 1, BASIS.shape[1])))
    t = np.linspace(0, 60, 200_001)
    scale = np.log(t + SCALE_OFFSET_S)
    mass = sum(np.trapezoid(np.exp(-model.nll(np.ones((t.size, 1)), t, np.full(t.size, end))), scale) for end in (0, 1))
    survived = np.exp(-model.nll(np.ones((1, 1)), np.array([60.0]), np.array([-1]))[0])
    assert mass + survived == pytest.approx(1.0, abs=1e-4)


def test_interpolation_and_integration_agree():
    at = np.array([0.005, 0.1, 1.234, 20.0, 50.0])
    hazard = 0.2 + np.log1p(NODES_S)
    step = 1e-5
    slope = (integration(place(at + step)) - integration(place(at))) @ hazard / step
    np.testing.assert_allclose(slope, interpolation(place(at)) @ hazard, rtol=1e-4)


def test_fitting_finds_the_hazards_that_made_the_data():
    rng = np.random.default_rng(1)
    n = 40_000
    group = rng.integers(0, 2, n)
    rates = np.where(group == 1, 2.0, 0.5)
    lengths = rng.exponential(1 / (rates + 0.7))
    ends = (rng.random(n) < 0.7 / (rates + 0.7)).astype(int)
    lengths, ends = np.minimum(lengths, 3.0), np.where(lengths > 3.0, -1, ends)
    model = fit_state(np.stack([np.ones(n), group], axis=1), lengths, ends)
    found = model.hazards(np.array([[1.0, 0.0], [1.0, 1.0]]))
    middle = (NODES_S > 0.1) & (NODES_S < 1.5)
    np.testing.assert_allclose(found[0, 0, middle], 0.5, rtol=0.15)
    np.testing.assert_allclose(found[1, 0, middle], 2.0, rtol=0.15)
    np.testing.assert_allclose(found[:, 1][:, middle], 0.7, rtol=0.15)


def test_a_fit_does_not_depend_on_luck():
    chain = table_of(sojourns(talk(3, seconds=600)))
    rows = chain["state"] == 0
    part = {name: column[rows] for name, column in chain.items()}
    columns = columns_of(part, ["sequence"])
    first, second = (fit_state(columns, part["length_s"], part["end"]).theta for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_hats_add_up_to_one_minus_the_first():
    values = np.linspace(-2, 5, 50)
    np.testing.assert_allclose(sum(hats(values, [-1.0, 0.0, 2.0])), np.interp(values, [-1, 0], [0, 1]))


@pytest.mark.parametrize("name", GROUPS)
def test_each_group_of_columns_is_finite_and_says_something(name):
    columns = columns_of(table_of(sojourns(talk(0))), [name])
    assert np.isfinite(columns).all()
    assert columns.shape[1] > 1
    assert columns[:, 1:].std() > 0
