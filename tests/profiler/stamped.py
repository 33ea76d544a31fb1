"""What a kernel with stamps leaves in its buffer, in the layout of profiler/timeline.cuh."""

HEAD, WORDS, CODE_BITS = 8, 1024, 5
CLOCK_BITS = 32 - CODE_BITS
ACTIVITIES = ("wait_for_keys", "start_scores", "wait_for_scores", "softmax")
GROUPS = ("consumer 1", "consumer 2")
OPERATIONS = "Q K^T: start_scores to wait_for_scores"
NS_PER_CYCLE = 0.5
STEP = {"wait_for_keys": 10, "start_scores": 40, "wait_for_scores": 160, "softmax": 190}
"""Cycles of one step of a consumer: Q K^T is under way for half of its 400."""


def words(stamps, began, ended, sm=5, block=0):
    """Words of a group: `stamps` are pairs of code and clock, times of globaltimer and clock."""
    head = [block + 1, sm, *_time(*began), *(_time(*ended) if ended is not None else ())]
    head += [0] * (HEAD - len(head))
    return [*head, *(stamp(code, clock) for code, clock in stamps)]


def stamp(code, clock):
    """Word of a stamp."""
    return clock % 2**CLOCK_BITS << CODE_BITS | code


def _time(nanoseconds, clock):
    return nanoseconds % 2**32, nanoseconds >> 32, clock % 2**32


def line(written, **changes):
    """A line of the file: one visit."""
    return {
        "cell": "plain--small",
        "block": 0,
        "arm": 0,
        "activities": ", ".join(ACTIVITIES),
        "groups": ", ".join(GROUPS),
        "operations": OPERATIONS,
        "head": HEAD,
        "words": WORDS,
        "code_bits": CODE_BITS,
        "written": list(written),
        **changes,
    }


def consumer(group, *, delay, steps, block=0, began_clock=1000000):
    """A consumer that begins its steps so many cycles after the kernel does."""
    clock, stamps = began_clock + delay, []
    for _ in range(steps):
        for code, activity in enumerate(ACTIVITIES, start=1):
            stamps.append((code, clock))
            clock += STEP[activity]
    began_ns = 7_000_000_000
    ended_ns = began_ns + int((clock - began_clock) * NS_PER_CYCLE)
    return [block, group, words(stamps, (began_ns, began_clock), (ended_ns, clock), sm=5 + block)]


def ping_pong(steps=12, delay=200, **changes):
    """Two consumers, the second so many cycles behind: at 200, half a step, they take turns."""
    first = consumer(0, delay=0, steps=steps)
    return line([first, consumer(1, delay=delay, steps=steps)], **changes)
