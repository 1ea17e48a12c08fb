# The model of two workers and one name. It is no program, so only the plain test run searches it.
TESTS += t/campaigns/model/test_model.py
EXTRA_DIST += t/campaigns/model/counter.pml t/campaigns/model/model.py t/campaigns/model/test_model.py
