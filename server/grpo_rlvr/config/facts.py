"""What follows from config and setup together: who trains what, where, with which backend. Unknown stays None."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from grpo_rlvr.config.tidy import NUMBERS
from grpo_rlvr.config.versions import Versions, in_range
from grpo_rlvr.config.view import ConfigView, as_mapping
from grpo_rlvr.models.setup import Setup

# accelerate counts all processes, torchrun those of one machine.
_ALL_PROCESSES = re.compile(r"--num[_-]processes[ =](\d+)")
_MACHINE_PROCESSES = re.compile(r"--nproc[_-]per[_-]node[ =](\d+)")
_VISIBLE = re.compile(r"CUDA_VISIBLE_DEVICES=[\"']?(\d+(?:,\d+)*)")


# Above every count, size and port that a setup can state; also keeps infinity out.
LARGEST = 1e12


@dataclass(frozen=True)
class Facts:
    """Derived facts about a run; each property says what None means."""

    config: ConfigView
    setup: Setup
    versions: Versions

    def trl_is(self, spec: str) -> bool:
        """Return whether the TRL version lies in a range such as `>=0.18`."""
        return self.versions.trl_is(spec)

    def transformers_is(self, spec: str) -> bool:
        """Return whether the transformers version, stated or paired with the TRL release, lies in a range."""
        stated = self.versions.within("transformers", spec)
        return in_range(self.config.table.transformers, spec) if stated is None else stated

    def number(self, path: str) -> float | None:
        """Return a number of the setup, None when it is not stated, no number, or beyond what any of them can be."""
        value = self.setup.get(path)
        usable = isinstance(value, int | float) and not isinstance(value, bool) and -LARGEST <= value <= LARGEST
        return float(value) if usable else None

    def text(self, path: str) -> str | None:
        """Return a text of the setup, None when it is not stated or no text."""
        value = self.setup.get(path)
        return value if isinstance(value, str) else None

    def unusable(self) -> list[str]:
        """Return the setup paths that want a number and hold something else; they count as not stated."""
        return [path for path in NUMBERS if self.setup.get(path) is not None and self.number(path) is None]

    # ------------------------------------------------------------------ processes and devices
    @cached_property
    def _processes(self) -> tuple[int, str]:
        stated = self.number("hardware.num_processes")
        if stated is not None and stated >= 1:
            return int(stated), "hardware.num_processes"
        command = self.text("launch.command") or ""
        if found := _ALL_PROCESSES.search(command):
            return max(1, int(found[1])), "launch.command"
        if found := _MACHINE_PROCESSES.search(command):
            return max(1, int(found[1]) * int(self.number("hardware.num_machines") or 1)), "launch.command"
        gpus = self.gpus or 0
        if gpus > 1 and not self.server:
            return gpus, "assumed: one for each of hardware.gpus"
        if gpus > 1 and (taken := self.server_gpus) is not None:
            # A server with as many GPUs as the trainer, or more, has GPUs of its own.
            left = gpus - taken if taken < gpus else gpus
            return left, "assumed: one for each of hardware.gpus that vllm_server.gpus leaves"
        return 1, "assumed: hardware.num_processes is not stated"

    @property
    def processes(self) -> int:
        """Training processes; one a GPU when only these are stated, 1 when the setup does not say."""
        return self._processes[0]

    @property
    def processes_source(self) -> str:
        """Where the number of processes comes from."""
        return self._processes[1]

    @property
    def processes_known(self) -> bool:
        """Whether the number of processes is stated, not assumed."""
        return not self.processes_source.startswith("assumed")

    @cached_property
    def gpus(self) -> int | None:
        """GPUs of the machine (per machine), None when not stated."""
        value = self.number("hardware.gpus")
        return None if value is None else int(value)

    @cached_property
    def visible_devices(self) -> tuple[int, ...] | None:
        """GPU indices that the trainer sees, None when not stated."""
        value = self.setup.get("hardware.cuda_visible_devices")
        if value is None:
            value = self.setup.section("launch").get("env", {})
            value = value.get("CUDA_VISIBLE_DEVICES") if isinstance(value, Mapping) else None
        if value is None and (found := _VISIBLE.search(self.text("launch.command") or "")):
            value = found[1]
        return device_list(value)

    @cached_property
    def server_devices(self) -> tuple[int, ...] | None:
        """GPU indices of the vLLM server, None when not stated: a plain number says how many they are."""
        stated = self.setup.get("vllm_server.gpus")
        return None if isinstance(stated, int) else device_list(stated)

    @property
    def server_gpus(self) -> int | None:
        """GPUs of the vLLM server, None when not stated."""
        stated = self.setup.get("vllm_server.gpus")
        if isinstance(stated, int):
            return stated if stated > 0 and not isinstance(stated, bool) else None
        return None if self.server_devices is None else len(self.server_devices)

    @property
    def gpu_mem_gb(self) -> float | None:
        """Memory of one GPU in GB, None when not stated."""
        value = self.number("hardware.gpu_mem_gb")
        return value if value is not None else self.number("hardware.gb_each")

    @property
    def zero_stage(self) -> int | None:
        """DeepSpeed ZeRO stage, of the setup or of DeepSpeed's own settings in the config; None when not stated."""
        value = self.number("hardware.deepspeed_stage")
        value = value if value is not None else self.number("launch.zero_stage")
        if value is None:
            own = as_mapping(as_mapping(self.config.given.get("deepspeed")).get("zero_optimization")).get("stage")
            return own if own in (0, 1, 2, 3) else None
        return int(value)

    @property
    def fsdp_version(self) -> int | None:
        """FSDP version (1 or 2), of the setup or of `fsdp_config`, None when not stated."""
        value = self.number("hardware.fsdp_version")
        if value is None:
            own = as_mapping(self.config.given.get("fsdp_config"))
            stated = own.get("version", own.get("fsdp_version"))
            return stated if stated in (1, 2) and self.config.given.get("fsdp") else None
        return int(value)

    @property
    def sharded(self) -> bool:
        """Whether ZeRO or FSDP spreads the training state over processes and keeps float32 master weights."""
        named = any(self.config.given.get(name) for name in ("deepspeed", "fsdp"))
        return bool(self.zero_stage) or self.fsdp_version is not None or named

    # ------------------------------------------------------------------ model
    @property
    def model_class(self) -> str | None:
        """dense, moe or vlm; None when not stated."""
        value = self.text("model.class")
        return "moe" if value is None and self.setup.get("model.moe") is True else value

    @property
    def params_b(self) -> float | None:
        """Parameters in billions, None when not stated."""
        return self.number("model.params_b")

    @property
    def adapter(self) -> Mapping[str, Any]:
        """The adapter that an in-memory model carries, empty when none is stated."""
        value = self.setup.get("model.adapter")
        return value if isinstance(value, Mapping) else {}

    @property
    def peft_config(self) -> Mapping[str, Any]:
        """The peft_config given to the trainer, empty when none is stated."""
        return self.setup.section("peft_config")

    @cached_property
    def peft(self) -> bool | None:
        """Whether an adapter is trained: stated, or implied by a peft_config or a PeftModel; None when unknown."""
        stated = self.setup.get("model.peft")
        if isinstance(stated, bool):
            return stated
        if isinstance(stated, str):
            return stated.lower() not in {"", "none", "no", "false", "full"}
        if self.peft_config or self.adapter or self.number("model.lora_r") or "peft" in (self.instance or "").lower():
            return True
        return None

    @property
    def instance(self) -> str | None:
        """How an in-memory model object was made; None when the model is given by name or nothing is stated."""
        value = self.setup.get("model.instance")
        if value is True:
            return "PreTrainedModel"
        return value if isinstance(value, str) and value else None

    @property
    def quantized(self) -> str | None:
        """4bit, 8bit or another word of the setup; None when not stated or none."""
        value = self.setup.get("model.quantized")
        value = value if value is not None else self.config.given.get("quantization_config")
        if isinstance(value, Mapping):
            return "8bit" if value.get("load_in_8bit") else "4bit" if value.get("load_in_4bit") else "other"
        return value.lower() if isinstance(value, str) and value.lower() not in {"", "none", "no"} else None

    @property
    def weights_dtype(self) -> str | None:
        """dtype that model_init_kwargs asks for (float32, bfloat16, auto, ...), None when it does not."""
        value = self.config.effective("model_init_kwargs.dtype")
        if value is None and self.trl_is("<0.27"):
            # Since 0.27 TRL fills in dtype, which transformers prefers, so the older name is not read.
            value = self.config.effective("model_init_kwargs.torch_dtype")
        return str(value).removeprefix("torch.") if value is not None else None

    @property
    def bf16(self) -> bool:
        """Whether forward passes run under bfloat16 autocast; TRL 0.19 and later turn it on unless fp16 is."""
        stated = self.config.effective("bf16")
        return not self.config.flag("fp16") if stated is None and self.trl_is(">=0.19") else bool(stated)

    @property
    def unsloth(self) -> bool:
        """Whether unsloth's patched config and trainer run: they fit the batch to the group and generate in process."""
        stated = self.setup.get("trainer")
        return bool(stated.get("unsloth")) if isinstance(stated, Mapping) else "unsloth" in str(stated or "").lower()

    # ------------------------------------------------------------------ generation
    @property
    def use_vllm(self) -> bool:
        """Whether rollouts come from vLLM."""
        return self.config.flag("use_vllm")

    @cached_property
    def vllm_mode(self) -> str | None:
        """colocate, server, device (a GPU of its own, up to 0.15), or unsloth (its own engine); None without vLLM."""
        if not self.use_vllm:
            return None
        if self.unsloth:
            return "unsloth"
        if self.trl_is("<0.16"):
            return "device"
        return self.config.text("vllm_mode") if self.config.exists("vllm_mode") else "server"

    @property
    def colocate(self) -> bool:
        """Whether vLLM shares the training GPUs."""
        return self.vllm_mode == "colocate"

    @property
    def shares_gpu(self) -> bool:
        """Whether vLLM lives on a GPU that also trains: colocate, or a device of the trainer's own up to 0.15."""
        if self.vllm_mode == "device":
            index = (self.config.text("vllm_device") or "auto").rpartition(":")[2]
            only_one = self.processes == 1 and self.gpus == 1
            return bool(only_one or (index.isdecimal() and int(index) < self.processes))
        return self.colocate

    @property
    def server(self) -> bool:
        """Whether vLLM is a server of its own."""
        return self.vllm_mode == "server"

    # ------------------------------------------------------------------ loss
    @property
    def loss_type(self) -> str:
        """Loss in force; before the option existed the per-sequence mean, i.e. grpo."""
        return (self.config.text("loss_type") or "").lower() if self.config.exists("loss_type") else "grpo"

    @property
    def sequence_level(self) -> bool:
        """Whether importance ratios are taken per sequence (GSPO)."""
        return bool(self.config.effective("importance_sampling_level") == "sequence")

    @property
    def beta(self) -> float:
        """KL coefficient in force."""
        return self.config.number("beta") or 0.0

    # ------------------------------------------------------------------ dataset and evaluation
    @property
    def dataset_rows(self) -> int | None:
        """Rows of the training set, None when not stated."""
        value = self.number("dataset.rows")
        return None if value is None else int(value)

    @cached_property
    def sample_prompts(self) -> tuple[str, ...] | None:
        """Texts of sample prompts, messages joined by lines; None where prompts are not stated, or only in words."""
        value = self.setup.get("dataset.prompts")
        if not isinstance(value, list | tuple) or not value:
            return None
        one = all(isinstance(item, Mapping) and "role" in item for item in value)
        samples = [prompt_text(sample) for sample in ([value] if one else value)]
        return None if None in samples else tuple(sample for sample in samples if sample is not None)

    @property
    def prompt_tokens(self) -> int | None:
        """Tokens of the longest prompt, None when not stated."""
        value = self.number("dataset.max_prompt_tokens")
        return None if value is None else int(value)

    @property
    def sent_prompt_tokens(self) -> int | None:
        """Tokens of the longest prompt that reaches the model, cut to max_prompt_length where that is read."""
        tokens, limit = self.prompt_tokens, self.config.integer("max_prompt_length")
        return min(tokens, limit) if tokens is not None and limit is not None and self.cuts_prompts else tokens

    @property
    def cuts_prompts(self) -> bool:
        """Whether max_prompt_length is read: up to 0.25, and there not for messages that vLLM turns into text."""
        messages = self.use_vllm and self.text("dataset.format") == "conversational"
        return self.trl_is("<0.25" if messages else "<0.26")

    @property
    def columns(self) -> tuple[str, ...] | None:
        """Dataset columns, None when not stated."""
        value = self.setup.get("dataset.columns")
        return tuple(str(name) for name in value) if isinstance(value, list | tuple) else None

    @property
    def evaluates(self) -> bool:
        """Whether training is interrupted for evaluation."""
        name = "eval_strategy" if self.config.exists("eval_strategy") else "evaluation_strategy"
        return str(self.config.effective(name) or "no").lower() != "no"

    @property
    def evaluates_at_all(self) -> bool:
        """Whether anything is evaluated, during training or before its first step."""
        return self.evaluates or (self.config.exists("eval_on_start") and self.config.flag("eval_on_start"))


def device_list(value: Any) -> tuple[int, ...] | None:
    """Return GPU indices from a list or from text such as `0,1`; None when there is none."""
    if isinstance(value, str):
        parts = [part.strip() for part in value.split(",") if part.strip()]
        return tuple(int(part) for part in parts) if parts and all(part.isdecimal() for part in parts) else None
    if isinstance(value, list | tuple):
        return device_list(",".join(str(item) for item in value if not isinstance(item, bool)))
    return (value,) if isinstance(value, int) and not isinstance(value, bool) else None


def prompt_text(prompt: Any) -> str | None:
    """Return the text of a prompt, given as text or as messages (their texts joined by lines); None for neither."""
    if isinstance(prompt, str):
        return prompt
    if not isinstance(prompt, list | tuple):
        return None
    texts: list[Any] = []
    for message in prompt:
        content = message.get("content") if isinstance(message, Mapping) else None
        parts = content if isinstance(content, list | tuple) else [{"text": content}]
        texts += [part.get("text") for part in parts if isinstance(part, Mapping)]
    return "\n".join(text for text in texts if isinstance(text, str))
