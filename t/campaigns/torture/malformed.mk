# Broken requests over sockets (malformed.py). The test is a short form of ./dev torture malformed.
TESTS += t/campaigns/torture/malformed.py
EXTRA_DIST += t/campaigns/torture/malformed.py
