"""The stories of clients/stories, played with the agent of the Node.js client: a line of TAP for each story."""

import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "clients"))

import stories  # noqa: E402

if __name__ == "__main__":
    sys.exit(stories.tap("node"))
