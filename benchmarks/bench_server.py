"""Server start: from starting the process to an answered tools/list, against a bare server with one tool.

    python benchmarks/bench_server.py [ROUNDS]

Both are started in turn over stdio with the official client, so that the machine's mood hits both alike; the ratio of
the medians is the figure. The aim is at most 1.3.
"""

import asyncio
import statistics
import sys
import tempfile
import time
from pathlib import Path

from mcp.client import Client
from mcp.client.stdio import StdioServerParameters

BARE = """
from mcp.server import MCPServer

server = MCPServer(name="bare", version="1")


@server.tool()
def add(a: int, b: int) -> int:
    \"\"\"Add two numbers.\"\"\"
    return a + b


server.run("stdio")
"""


async def seconds_to_tools(command: list[str]) -> float:
    """Start a server and list its tools. Returns the seconds until the answer."""
    started = time.perf_counter()
    async with Client(StdioServerParameters(command=command[0], args=command[1:])) as client:
        await client.list_tools()
        return time.perf_counter() - started


async def measure(rounds: int) -> tuple[list[float], list[float]]:
    """Return the seconds of our server and of the bare one, a value a round; one warm-up round is left out."""
    with tempfile.TemporaryDirectory() as folder:
        bare = Path(folder) / "bare.py"
        bare.write_text(BARE, encoding="utf-8")
        ours, theirs = [], []
        for _ in range(rounds + 1):
            ours.append(await seconds_to_tools([sys.executable, "-m", "grpo_rlvr", "serve", "--root", folder]))
            theirs.append(await seconds_to_tools([sys.executable, str(bare)]))
        return ours[1:], theirs[1:]


def main() -> None:
    """Print medians and their ratio."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 9
    ours, theirs = asyncio.run(measure(rounds))
    ratio = statistics.median(ours) / statistics.median(theirs)
    print(f"this server: median {statistics.median(ours):.2f} s, bare server: median {statistics.median(theirs):.2f} s")
    print(f"ratio {ratio:.2f} over {rounds} rounds (aim: at most 1.3)")


if __name__ == "__main__":
    main()
