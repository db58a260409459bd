"""Which family a model belongs to, by its name: a judge should not share the policy's blind spots."""

import re

# A name part and the family that it tells of; a distilled model belongs to both families of its name.
_FAMILIES = {
    "gpt": r"gpt-?(?:oss|\d|neo|j)|chatgpt|\bo[134](?:-|\b)|davinci",
    "claude": r"claude",
    "gemma": r"gemma|gemini|palm",
    "llama": r"llama|vicuna|alpaca|hermes",
    "qwen": r"qwen|qwq|qvq",
    "deepseek": r"deepseek",
    "mistral": r"mistral|mixtral|ministral|magistral|codestral|pixtral|devstral",
    "phi": r"\bphi-?\d",
    "smollm": r"smollm",
    "olmo": r"olmo|tulu",
    "granite": r"granite",
    "command": r"command-|\baya\b|c4ai",
    "glm": r"glm",
    "yi": r"\byi-",
    "falcon": r"falcon",
    "kimi": r"kimi|moonlight",
    "grok": r"grok",
    "nemotron": r"nemotron",
    "internlm": r"internlm",
    "minimax": r"minimax",
    "pythia": r"pythia",
    "exaone": r"exaone",
    "hunyuan": r"hunyuan",
    "ernie": r"ernie",
    "nova": r"\bnova-",
}


def families(model: str) -> frozenset[str]:
    """Return the families that a model's name tells of; empty when it tells of none that is known."""
    lowered = model.lower()
    return frozenset(family for family, pattern in _FAMILIES.items() if re.search(pattern, lowered))
