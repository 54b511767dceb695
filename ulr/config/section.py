"""What all sections of the settings share."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Fraction = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=1)]


class Section(BaseModel):
    """A group of settings; unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)
