# The model of what two workers do with one name. It is no program: only the plain run searches it.
TESTS += t/campaigns/model/test_model.py
EXTRA_DIST += t/campaigns/model/counter.pml t/campaigns/model/model.py t/campaigns/model/test_model.py
