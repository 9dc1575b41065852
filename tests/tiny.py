"""The point mass with episodes of 40 steps, so that a collection takes seconds."""

from dataclasses import replace

import utds.domains
from utds.domains import pointmass

utds.domains.register(replace(pointmass.DOMAIN, name="tinymass", steps=40))
