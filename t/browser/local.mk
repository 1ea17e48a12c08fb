# The status page in Chromium. The runner is Python, as for the system tests; the tests are JavaScript.
TESTS += t/browser/test_page.py
EXTRA_DIST += \
	t/browser/test_page.py \
	t/browser/page_test.mjs \
	t/browser/harness.mjs \
	t/browser/judge.mjs \
	t/browser/contrast.mjs \
	t/browser/package.json

# What the runner installs.
clean-local: clean-browser
.PHONY: clean-browser
clean-browser:
	rm -rf t/browser/out
