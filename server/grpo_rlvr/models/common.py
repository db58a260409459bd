"""What several steps share: the base model, reward specs, setups, pictures."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator

Severity = Literal["error", "warning", "info"]
JsonObject = dict[str, JsonValue]


class Model(BaseModel):
    """Base of every input and output: unknown fields are refused, so that a typo never passes silently."""

    # Building each model only when it is used halves what the server pays for them at its start.
    model_config = ConfigDict(extra="forbid", defer_build=True)


class RewardSpec(Model):
    """A reward function as data."""

    reward: str = Field(description="Name of a reward of rlvr_rewards (math, exact, ...) or 'file.py:function'.")
    args: dict[str, Any] = Field(default_factory=dict, description="Keyword arguments of the reward.")
    weight: float = Field(default=1.0, description="Weight in the sum of rewards.")

    @model_validator(mode="before")
    @classmethod
    def _from_a_name(cls, given: Any) -> Any:
        """A text alone is the reward's name, as on the command line."""
        return {"reward": given} if isinstance(given, str) else given


class Interval(Model):
    """A proportion or mean with its two-sided 95 % interval."""

    value: float
    low: float
    high: float
    n: int = Field(description="Observations behind the value.")
