"""What a coordinator says of a scheduler that is gone."""

from concurrent.futures import CancelledError
from unittest.mock import Mock

import pytest
from distributed.comm.core import CommClosedError

from profiler.cluster.coordinator import _naming_loss
from profiler.errors import EnvironmentUnusable


@pytest.mark.parametrize("error", [CommClosedError("in <TCP>: Stream is closed"), CancelledError()])
def test_a_lost_scheduler_is_named_before_the_client_has_noticed(error):
    with (
        pytest.raises(EnvironmentUnusable, match="The connection to the scheduler was lost"),
        _naming_loss(Mock(status="running")),
    ):
        raise error


def test_another_error_beside_a_scheduler_that_runs_is_not_its_loss():
    with pytest.raises(FileNotFoundError), _naming_loss(Mock(status="running")):
        raise FileNotFoundError
