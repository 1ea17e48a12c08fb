# A model for spin, of two workers and one name. No change of a program can make a search fail, so only ./dev model
# searches it.
EXTRA_DIST += t/campaigns/model/counter.pml t/campaigns/model/model.py t/campaigns/model/search.py
