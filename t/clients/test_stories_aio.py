"""The stories of clients/stories, played with the agent of the asyncio client: a line of TAP for each story."""

import sys

import programs  # noqa: F401: the paths of other modules
import stories

sys.exit(stories.tap("aio"))
