"""The estimators keep scikit-learn's contract, and predict."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import vkgrad as vg
from vkgrad.errors import OptionError
from vkgrad.sklearn import VkgradClassifier, VkgradRegressor

pytestmark = pytest.mark.usefixtures("on_cpu")


@pytest.mark.parametrize("estimator", [VkgradClassifier, VkgradRegressor])
def test_check_estimator(estimator: type) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the checks fit bad data on purpose
        results = check_estimator(estimator(epochs=60), on_fail=None)
    failed = {r["check_name"]: r["exception"] for r in results if r["status"] not in ("passed", "skipped")}
    assert not failed and len(results) > 50
    # What is skipped needs packages that are not there.
    assert all("not installed" in str(r["exception"]) or "ARRAY_API" in str(r["exception"])
               for r in results if r["status"] == "skipped")  # fmt: skip


def test_check_estimator_can_fail() -> None:
    class Forgetful(VkgradRegressor):
        def predict(self, X):
            return np.zeros(len(X))

    results = check_estimator(Forgetful(epochs=2), on_fail=None)
    assert any(r["status"] == "failed" for r in results)


def test_digits_in_a_pipeline() -> None:
    x, y = load_digits(return_X_y=True)
    pipeline = make_pipeline(StandardScaler(), VkgradClassifier(epochs=15, random_state=0))
    assert cross_val_score(pipeline, x[:900], y[:900], cv=3).mean() > 0.88


def test_the_seed_decides_and_the_program_s_numbers_go_on() -> None:
    x, y = load_digits(return_X_y=True)
    vg.manual_seed(4)
    expected = vg.random.next_key().tolist()
    vg.manual_seed(4)
    first, again, other = (VkgradClassifier(epochs=2, random_state=s).fit(x[:200], y[:200]) for s in (1, 1, 2))
    assert np.array_equal(first.predict_proba(x), again.predict_proba(x))
    assert not np.array_equal(first.predict_proba(x), other.predict_proba(x))
    assert vg.random.next_key().tolist() == expected


def test_a_network_of_ones_own_and_a_search(tmp_path: Path) -> None:
    x, y = load_digits(return_X_y=True)

    def network(features: int, outputs: int) -> vg.nn.Module:
        return vg.nn.Sequential(vg.nn.Linear(features, 32), vg.nn.Tanh(), vg.nn.Linear(32, outputs))

    search = GridSearchCV(VkgradClassifier(network, epochs=5, random_state=0), {"lr": [1e-5, 0.01]}, cv=2)
    search.fit(x[:300], y[:300])
    assert search.best_params_ == {"lr": 0.01}
    vg.save(search.best_estimator_.module_.state_dict(), tmp_path / "best.safetensors")
    with pytest.raises(OptionError, match="no 'Newton'"):
        VkgradClassifier(optimizer="Newton").fit(x[:20], y[:20])


def test_several_targets() -> None:
    x = np.linspace(-1, 1, 100).reshape(-1, 1)
    y = np.stack([3 * x[:, 0] + 100, x[:, 0] ** 2], 1)
    model = VkgradRegressor(random_state=0, epochs=150).fit(x, y)
    assert model.predict(x).shape == (100, 2) and model.score(x, y) > 0.97
