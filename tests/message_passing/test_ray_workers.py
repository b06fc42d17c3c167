"""A worker that goes on from a state takes the same steps; the server may ask all at once."""

import builtins
import pickle
from concurrent.futures import ThreadPoolExecutor

import jax
import numpy as np
import pytest
from problems.projected import INPUTS, LABELS

import bbalpha as bb
from bbalpha.message_passing.ray_workers import RayWorker, Seat
from bbalpha.message_passing.server import serve
from bbalpha.message_passing.workers import Message

SETTINGS = {"num_workers": 2, "max_rounds": 6, "key": jax.random.key(0)}
pytestmark = pytest.mark.filterwarnings("ignore:.* did not converge")


class Elsewhere:
    """What Ray does, without Ray: the worker is pickled, dies and starts again at every call."""

    def __init__(self, worker):
        self._pickled, self._state = pickle.dumps(worker), worker.state()

    def site(self):
        return self._state.site

    def update(self, q, step):
        seat = Seat(pickle.loads(self._pickled))  # noqa: S301
        self._state = seat.update(self._state, q, step)
        return self._state.site


def test_workers_that_start_again_at_every_call_find_the_same_bits():
    here = bb.snep(bb.Probit(), INPUTS, LABELS, **SETTINGS)
    there = bb.snep(bb.Probit(), INPUTS, LABELS, place=Elsewhere, **SETTINGS)
    np.testing.assert_array_equal(there.mean, here.mean)
    np.testing.assert_array_equal(there.variance, here.variance)


def test_the_server_may_ask_all_workers_at_once():
    asked = []

    class Counted:
        def __init__(self, number):
            self.number = number

        def site(self):
            return Message(np.eye(1), np.ones(1))

        def update(self, q, step):
            asked.append(self.number)
            return self.site()

    with ThreadPoolExecutor(3) as pool:
        q, _, _ = serve([Counted(number) for number in range(3)], 2, 1e-6, pool.map)
    assert sorted(asked) == [0, 0, 1, 1, 2, 2]
    assert q.precision.tolist() == [[4.0]]  # the prior and three sites


def test_without_ray_a_sentence_says_how_to_install_it(monkeypatch):
    real = builtins.__import__

    def without_ray(name, *args, **settings):
        if name == "ray":
            raise ImportError(name)
        return real(name, *args, **settings)

    monkeypatch.setattr(builtins, "__import__", without_ray)
    with pytest.raises(ImportError, match=r"RayWorker needs ray: pip install 'bbalpha\[ray\]'"):
        bb.snep(bb.Probit(), INPUTS, LABELS, place=RayWorker, **SETTINGS)
