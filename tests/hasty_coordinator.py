"""The profiler, which waits 3 s, not 30, for a scheduler that was lost to be there again.

As a worker it says at once that it waits for one.
"""

from profiler.cli import main
from profiler.cluster import connection

if __name__ == "__main__":
    connection._CONNECT_S, connection._SILENT_S = 3.0, 0.1
    main()
