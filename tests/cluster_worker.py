"""`profiler worker` with a GPU that is made up, and with faults.

Arguments: JSON with `gpu`, the fields of an Environment, and maybe `fault`; the address; flags.
"""

import json
import os
import resource
import sys
import tempfile
from dataclasses import replace

from profiler.cli import main
from profiler.cluster import on_worker
from profiler.machine import requirements

SMALL_DISK_BYTES = 600
"""Less than any file of an attempt has but the first."""


def made_up(gpu):
    real = requirements.probe_environment

    def probe_environment(**options):
        return replace(real(**options), **gpu)

    requirements.probe_environment = on_worker.probe_environment = probe_environment


def fill_disk():
    resource.setrlimit(resource.RLIMIT_FSIZE, (SMALL_DISK_BYTES, SMALL_DISK_BYTES))


def corrupt_what_is_sent():
    real = on_worker.packed_run

    def packed_run(*arguments):
        digest, archive = real(*arguments)
        return digest, archive + b" "

    on_worker.packed_run = packed_run


def lack_files():
    os.chdir(tempfile.mkdtemp())


FAULTS = {"full_disk": fill_disk, "corrupted": corrupt_what_is_sent, "elsewhere": lack_files}


if __name__ == "__main__":
    facts, (address, *flags) = json.loads(sys.argv[1]), sys.argv[2:]
    made_up(facts["gpu"])
    if "fault" in facts:
        FAULTS[facts["fault"]]()
    flags += ["--device", "cpu", "--scratch", facts["scratch"]]
    sys.argv = ["profiler", "worker", address, *flags]
    main()
