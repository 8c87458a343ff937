"""Locks with redlock-py, for tests/interop: words in, JSON lines out.

    redlock_py.py acquire --nodes URL,URL,.. --resource R --ttl MS
        tries once; when acquired, obeys lines on standard input: `release`; at their end it leaves without a release
    redlock_py.py release --nodes URL,URL,.. --resource R --value V
"""

import argparse
import json
import sys

from redlock import Lock, Redlock


def say(event, **facts):
    print(json.dumps({"event": event, **facts}), flush=True)


def acquire(locks, resource, ttl):
    lock = locks.lock(resource, ttl)
    if not lock:
        say("refused")
        return
    say("acquired", value=lock.key.decode(), validity_ms=lock.validity)
    for line in sys.stdin:
        if line.strip() == "release":
            locks.unlock(lock)
            say("released")
            return
        say("error", reason=f"no such order: {line.strip()}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("verb", choices=["acquire", "release"])
    parser.add_argument("--nodes", required=True)
    parser.add_argument("--resource", required=True)
    parser.add_argument("--ttl", type=int, default=10_000)
    parser.add_argument("--value")
    words = parser.parse_args()

    # One try: whoever runs this decides whether to try again. (0 would mean the default of 3.)
    locks = Redlock(words.nodes.split(","), retry_count=1, retry_delay=0.001)
    if words.verb == "acquire":
        acquire(locks, words.resource, words.ttl)
    else:
        locks.unlock(Lock(0, words.resource, words.value.encode()))
        say("released")


if __name__ == "__main__":
    try:
        main()
    except Exception as error:  # the test wants to read it, whatever it is
        say("error", reason=f"{type(error).__name__}: {error}")
        sys.exit(1)
