# Broken requests over sockets (malformed.py); as a test, a short form of ./dev torture malformed.
TESTS += t/torture/malformed.py
EXTRA_DIST += t/torture/malformed.py
