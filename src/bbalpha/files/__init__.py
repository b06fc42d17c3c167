"""Files: models and posteriors on disk, written whole or not at all."""

from bbalpha.files.atomic import replacing

__all__ = ["replacing"]
