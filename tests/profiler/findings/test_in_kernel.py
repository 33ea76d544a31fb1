"""What is under way inside a kernel, from stamps whose times are known."""

import math

import pytest
import stamped

from profiler.findings.timelines.in_kernel import InKernelFindings
from profiler.parse.stamps import kernel_stamps


def found(**changes):
    return InKernelFindings("plain--small", kernel_stamps(stamped.ping_pong(**changes)))


def share(findings, group, activity):
    shares = {(share.group, share.activity): share for share in findings.activity_shares}
    return shares[group, activity]


def test_an_operation_is_under_way_from_its_first_activity_to_the_end_of_its_last():
    first = found().under_way.iloc[0]
    assert (first["operation"], first["start_ns"], first["end_ns"]) == ("Q K^T", 5.0, 105.0)


def test_warpgroups_that_take_turns_have_operations_one_after_the_other():
    of_none, of_one, of_two = found(delay=200).operation_shares
    assert (of_none, of_one, of_two) == pytest.approx((0.0, 1.0, 0.0), abs=0.01)


def test_warpgroups_in_step_have_them_at_once():
    of_none, of_one, of_two = found(delay=0).operation_shares
    assert (of_none, of_one, of_two) == pytest.approx((0.5, 0.0, 0.5), abs=0.01)


@pytest.mark.parametrize(("delay", "with_others"), [(200, 1.0), (0, 0.0)])
def test_what_is_under_way_during_an_activity(delay, with_others):
    softmax = share(found(delay=delay), 0, "softmax")
    assert softmax.median_ns == pytest.approx(95.0)
    assert softmax.with_own_operations == 0.0
    assert softmax.with_other_operations == pytest.approx(with_others, abs=0.06)
    assert softmax.time_share == pytest.approx(190 / 400, abs=0.05)
    assert share(found(delay=delay), 0, "start_scores").with_own_operations == 1.0


def test_shares_are_of_the_time_in_which_all_were_recorded():
    groups = [stamped.consumer(0, delay=0, steps=12), stamped.consumer(1, delay=0, steps=3)]
    findings = InKernelFindings("plain--small", kernel_stamps(stamped.line(groups)))
    assert findings.window(0) == (0.0, 600.0)
    assert share(findings, 0, "softmax").count == 3


def test_a_warpgroup_without_operations_may_end_early():
    """One that copies the queries of a block is done before the products begin."""
    groups = [stamped.consumer(number, delay=0, steps=12) for number in (0, 1)]
    copies = stamped.consumer(2, delay=0, steps=1)
    copies[2][stamped.HEAD :] = copies[2][stamped.HEAD : stamped.HEAD + 1]
    findings = InKernelFindings("plain--small", kernel_stamps(stamped.line([*groups, copies])))
    assert findings.window(0) == (0.0, 2400.0)
    assert sum(findings.operation_shares[1:]) == pytest.approx(0.5, abs=0.01)


def test_without_operations_nothing_is_said_of_them():
    findings = found(operations="")
    assert findings.operation_shares == ()
    softmax = share(findings, 0, "softmax")
    assert math.isnan(softmax.with_own_operations)
    assert math.isnan(softmax.with_other_operations)


def test_a_kernel_that_wrote_nothing():
    findings = InKernelFindings("plain--small", kernel_stamps(stamped.line([])))
    assert findings.blocks == ()
    assert findings.activity_shares == ()
    assert findings.operation_shares == ()
