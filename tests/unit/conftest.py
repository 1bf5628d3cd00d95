"""Property tests have no deadline: what a busy machine does to a clock says nothing about the code."""

from hypothesis import settings

settings.register_profile("calm", deadline=None)
settings.load_profile("calm")
