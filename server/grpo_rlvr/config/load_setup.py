"""The setup that a training script shows: model, adapter, dataset, rewards, how training is called."""

import ast
from dataclasses import dataclass, field
from typing import Any

from grpo_rlvr.config.load_evaluate import Unreadable, source
from grpo_rlvr.config.load_names import Binding
from grpo_rlvr.config.load_prompts import built_prompts, is_conversation, sample_prompts
from grpo_rlvr.config.load_python import Source, argument, origin, trainers
from grpo_rlvr.config.load_rewards import read_rewards
from grpo_rlvr.config.load_script import put

_KEEP_MODEL = frozenset(
    ["to", "cuda", "cpu", "eval", "train", "half", "float", "bfloat16", "prepare_model_for_kbit_training", "compile"]
)
_ADAPTER_LOADERS = ("PeftModel", "AutoPeftModelForCausalLM", "PeftModelForCausalLM", "AutoPeftModel")
_KEEP_ROWS = frozenset({"shuffle", "with_format", "set_format", "cast"})

TRL_TRAINERS = ("trl.GRPOTrainer", "trl.trainer.GRPOTrainer", "trl.trainer.grpo_trainer.GRPOTrainer")


@dataclass
class ScriptSetup:
    """What a script shows of its setup; `unread` gives the reason for what it does not, as dotted paths."""

    setup: dict[str, Any] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)
    unread: dict[str, str] = field(default_factory=dict)

    def put(self, dotted: str, value: Any, line: int) -> None:
        """Record a fact with the line that states it."""
        put(self.setup, dotted, value)
        self.lines[dotted] = line


def read_setup(script: Source, config_call: ast.Call) -> ScriptSetup:
    """Read everything around the GRPOConfig call that a rule can use."""
    result = ScriptSetup()
    calls = trainers(script)
    if calls:
        trainer = next((call for call in calls if call.lineno >= config_call.lineno), calls[0])
        _model(script, trainer, result)
        _adapter(script, trainer, result)
        _rewards(script, trainer, result)
        _extras(script, trainer, result)
        _dataset(script, trainer, result)
        _prompts(script, result)
    _train_call(script, result)
    _environment(script, result)
    if any(
        binding.module and binding.module.startswith("unsloth")
        for bindings in script.names.module.names.values()
        for binding in bindings
    ):
        put(result.setup, "trainer.unsloth", True)
    return result


def bindings_before(script: Source, node: ast.Name, line: int) -> list[Binding]:
    """Return the assignments of a name up to a line, in order."""
    scope = script.names.scope_of.get(node)
    found = scope.lookup(node.id) if scope is not None else None
    return sorted((item for item in found[1] if item.line <= line), key=lambda item: item.line) if found else []


def _model(script: Source, trainer: ast.Call, result: ScriptSetup) -> None:
    node = argument(trainer, "model")
    if node is None:
        return
    facts: dict[str, Any] = {}
    line = node.lineno
    try:
        if isinstance(node, ast.Name):
            steps = bindings_before(script, node, trainer.lineno)
            if not steps or any(step.conditional for step in steps):
                raise Unreadable(f"{node.id} is set in a branch, a parameter or another file")
            line = steps[-1].line
            for step in steps:
                if step.value is None or step.index not in (None, 0):
                    raise Unreadable(f"{node.id} gets its value when the file runs")
                facts = _model_step(script, step.value, facts)
            facts = _in_place(script, node, trainer, facts)
        else:
            facts = _model_step(script, node, facts)
    except Unreadable as error:
        result.unread["model"] = str(error)
        return
    for key, value in facts.items():
        result.put(f"model.{key}", value, line)


def _model_step(script: Source, node: ast.expr, before: dict[str, Any]) -> dict[str, Any]:
    if isinstance(node, ast.Call):
        called = origin(script, node.func)
        last = called.rpartition(".")[2]
        owner = called.rpartition(".")[0].rpartition(".")[2]
        if last == "from_pretrained":
            return _pretrained(script, node, owner, before)
        if last == "get_peft_model":
            # A fresh adapter: with it switched off the model is the one that training starts from.
            adapter = {"is_trainable": True, "from_sft": False}
            return {**before, "instance": "PeftModel", "peft": True, "adapter": adapter}
        if last in ("merge_and_unload", "merge_adapter"):
            return {
                **{key: before[key] for key in ("name", "quantized") if key in before},
                "instance": f"{last}() result in memory, not saved to disk",
            }
        if last in _KEEP_MODEL and before:
            return before
        raise Unreadable(f"{source(node)} makes the model when the file runs")
    value = script.evaluator.value(node)
    if not isinstance(value, str):
        raise Unreadable(f"{source(node)} is no model")
    return {"name": value, "instance": False}


def _pretrained(script: Source, node: ast.Call, owner: str, before: dict[str, Any]) -> dict[str, Any]:
    keywords = {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg}
    if owner in _ADAPTER_LOADERS:
        before = {**before, **_base_facts(script, node)}
        trainable = keywords.get("is_trainable")
        stated = False if trainable is None else script.evaluator.value(trainable)
        return {**before, "instance": "PeftModel", "peft": True, "adapter": {"is_trainable": bool(stated)}}
    named = node.args[0] if node.args else keywords.get("pretrained_model_name_or_path", keywords.get("model_name"))
    facts: dict[str, Any] = {"instance": "PreTrainedModel"}
    for key, value in (("name", named), ("dtype", keywords.get("dtype", keywords.get("torch_dtype")))):
        try:
            if value is not None:
                facts[key] = script.evaluator.value(value)
        except Unreadable:
            continue
    quantized = _quantized(script, keywords)
    if quantized:
        facts["quantized"] = quantized
    return facts


def _base_facts(script: Source, node: ast.Call) -> dict[str, Any]:
    """Return name and quantization of the base model that an adapter is loaded onto, as far as they can be read."""
    base = node.args[0] if node.args else None
    facts: dict[str, Any] = {}
    try:
        if isinstance(base, ast.Name):
            for step in bindings_before(script, base, node.lineno):
                facts = _model_step(script, step.value, facts) if step.value is not None else facts
        elif isinstance(base, ast.Call):
            facts = _model_step(script, base, facts)
    except Unreadable:
        return {}
    return {key: facts[key] for key in ("name", "quantized") if key in facts}


def _quantized(script: Source, keywords: dict[str, ast.expr]) -> str | None:
    entries = dict(keywords)
    config = keywords.get("quantization_config")
    call = config
    if isinstance(config, ast.Name):
        steps = bindings_before(script, config, config.lineno)
        call = steps[-1].value if len(steps) == 1 else None
    if isinstance(call, ast.Call):
        entries.update({keyword.arg: keyword.value for keyword in call.keywords if keyword.arg})
    for bits in ("4bit", "8bit"):
        flag = entries.get(f"load_in_{bits}")
        if isinstance(flag, ast.Constant) and flag.value is True:
            return bits
    return None


def _in_place(script: Source, node: ast.Name, trainer: ast.Call, facts: dict[str, Any]) -> dict[str, Any]:
    for call in script.calls:
        func = call.func
        if not isinstance(func, ast.Attribute) or not isinstance(func.value, ast.Name) or call.lineno > trainer.lineno:
            continue
        if func.value.id == node.id and func.attr in ("resize_token_embeddings", "load_adapter", "load_state_dict"):
            return {**facts, "instance": f"{facts.get('instance')} changed in memory by {func.attr}()"}
    return facts


def _adapter(script: Source, trainer: ast.Call, result: ScriptSetup) -> None:
    node = argument(trainer, "peft_config")
    if node is None or (isinstance(node, ast.Constant) and node.value is None):
        # A model object may bring its adapter along; a name cannot.
        if result.setup.get("model", {}).get("instance") is False:
            put(result.setup, "model.peft", False)
        return
    call: ast.expr | None = node
    if isinstance(node, ast.Name):
        steps = bindings_before(script, node, trainer.lineno)
        call = steps[0].value if len(steps) == 1 and not steps[0].conditional else None
    if not isinstance(call, ast.Call) or not origin(script, call.func).endswith("Config"):
        result.unread["peft_config"] = f"{source(node)} is made when the file runs"
        return
    adapter: dict[str, Any] = {}
    for keyword in call.keywords:
        if keyword.arg is None:
            result.unread["peft_config"] = f"**{source(keyword.value)} is unpacked"
            continue
        try:
            adapter[keyword.arg] = script.evaluator.value(keyword.value)
            result.lines[f"peft_config.{keyword.arg}"] = keyword.value.lineno
        except Unreadable as error:
            result.unread[f"peft_config.{keyword.arg}"] = str(error)
    result.setup["peft_config"] = adapter
    result.lines["peft_config"] = call.lineno
    put(result.setup, "model.peft", True)


def _rewards(script: Source, trainer: ast.Call, result: ScriptSetup) -> None:
    node = argument(trainer, "reward_funcs")
    if node is None:
        return
    read = read_rewards(script, node)
    if read is None:
        result.unread["rewards"] = f"{source(node)} is put together when the file runs"
        return
    result.setup["rewards"], lines = read
    result.lines["rewards"] = node.lineno
    for index, line in enumerate(lines):
        result.lines[f"rewards[{index}]"] = line


def _extras(script: Source, trainer: ast.Call, result: ScriptSetup) -> None:
    for name in ("tools", "rollout_func", "environment_factory", "quantization_config"):
        node = argument(trainer, name)
        if node is None or (isinstance(node, ast.Constant) and node.value is None):
            continue
        if name == "tools":
            if isinstance(node, ast.List | ast.Tuple) and node.elts:
                result.put("trainer.tools", [source(item) for item in node.elts], node.lineno)
        elif name in ("rollout_func", "quantization_config"):
            result.put(f"trainer.{name}", source(node), node.lineno)
            bits = _quantized(script, {name: node}) if name == "quantization_config" else None
            if bits and result.setup.get("model", {}).get("instance") is False:
                result.put("model.quantized", bits, node.lineno)
        else:
            result.setup["environment_factory"] = _environments(node)
            result.lines["environment_factory"] = node.lineno
    # A subclass, or a class of that name from elsewhere, has parameters of its own.
    if origin(script, trainer.func) in TRL_TRAINERS:
        named = [keyword.arg for keyword in trainer.keywords if keyword.arg is not None]
        result.put("trainer.arguments", named, trainer.lineno)


def _environments(node: ast.expr) -> dict[str, Any]:
    if isinstance(node, ast.Dict) and all(isinstance(key, ast.Constant) for key in node.keys):
        return {"names": [key.value for key in node.keys if isinstance(key, ast.Constant)]}
    return {"name": source(node)}


def _gets_no_dataset(script: Source, trainer: ast.Call, node: ast.expr | None) -> bool:
    # Keywords of a dict and positional arguments may hold one, and a subclass may bring its own.
    unclear = any(keyword.arg is None for keyword in trainer.keywords) or any(
        isinstance(item, ast.Starred) for item in trainer.args
    )
    missing = node is None and not unclear and origin(script, trainer.func) in TRL_TRAINERS
    return missing or (isinstance(node, ast.Constant) and node.value is None)


def _dataset(script: Source, trainer: ast.Call, result: ScriptSetup) -> None:
    node = argument(trainer, "train_dataset")
    if _gets_no_dataset(script, trainer, node):
        result.put("dataset.type", "None", trainer.lineno)
        return
    if node is None:
        return
    facts: dict[str, Any] = {}
    try:
        if isinstance(node, ast.Name):
            steps = bindings_before(script, node, trainer.lineno)
            if not steps or any(step.conditional or step.value is None or step.index for step in steps):
                raise Unreadable(f"{node.id} is set in a branch, a parameter or another file")
            for step in steps:
                if step.value is not None:
                    facts = _dataset_step(script, step.value, node.id, facts)
        else:
            facts = _dataset_step(script, node, "", facts)
    except Unreadable as error:
        result.unread["dataset"] = str(error)
        return
    for key, value in facts.items():
        result.put(f"dataset.{key}", value, node.lineno)
    if "columns" not in facts:
        result.unread["dataset.columns"] = "the rows are read or mapped when the file runs"


def _dataset_step(script: Source, node: ast.expr, holder: str, before: dict[str, Any]) -> dict[str, Any]:
    if isinstance(node, ast.Subscript):
        facts = _dataset_step(script, node.value, holder, before)
        return {key: value for key, value in facts.items() if key != "type"}
    if isinstance(node, ast.Name):
        if node.id == holder:
            return before
        steps = bindings_before(script, node, node.lineno)
        value = steps[0].value if len(steps) == 1 and not steps[0].conditional else None
        if value is None:
            raise Unreadable(f"{node.id} gets its value when the file runs")
        return _dataset_step(script, value, "", {})
    if not isinstance(node, ast.Call):
        raise Unreadable(f"{source(node)} is made when the file runs")
    called = origin(script, node.func)
    last = called.rpartition(".")[2]
    if last in ("from_list", "from_dict") and node.args:
        return _literal_rows(script.evaluator.value(node.args[0]))
    if last == "load_dataset":
        return _loaded(script, node)
    if isinstance(node.func, ast.Attribute):
        return _derived(script, node, last, _dataset_step(script, node.func.value, holder, before))
    raise Unreadable(f"{source(node)} is made when the file runs")


def _literal_rows(value: Any) -> dict[str, Any]:
    if isinstance(value, dict) and value and all(isinstance(column, list) for column in value.values()):
        rows = len(next(iter(value.values())))
        first = {name: column[0] if column else None for name, column in value.items()}
    elif isinstance(value, list) and value and all(isinstance(row, dict) for row in value):
        rows, first = len(value), {name: row[name] for row in value for name in row}
    else:
        raise Unreadable("the rows are no list of objects")
    facts: dict[str, Any] = {"columns": list(first), "rows": rows, "type": "Dataset"}
    if first.get("prompt") is not None:
        facts["format"] = "conversational" if isinstance(first["prompt"], list) else "string"
    return facts


def _loaded(script: Source, node: ast.Call) -> dict[str, Any]:
    keywords = {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg}
    facts: dict[str, Any] = {}
    try:
        if node.args:
            facts["path"] = str(script.evaluator.value(node.args[0]))
        if "streaming" in keywords:
            facts["streaming"] = bool(script.evaluator.value(keywords["streaming"]))
    except Unreadable:
        pass
    if "split" not in keywords and len(node.args) < 6:
        facts["type"] = "DatasetDict"
    return facts


def _derived(script: Source, node: ast.Call, method: str, facts: dict[str, Any]) -> dict[str, Any]:
    result = dict(facts)
    if method == "rename_column" and len(node.args) == 2 and "columns" in result:
        old, new = (script.evaluator.value(argument_node) for argument_node in node.args)
        result["columns"] = [new if column == old else column for column in result["columns"]]
        return result
    if method == "select" and node.args and isinstance(node.args[0], ast.Call):
        counts = [item.value for item in node.args[0].args if isinstance(item, ast.Constant)]
        if source(node.args[0].func) == "range" and len(counts) == 1 and isinstance(counts[0], int):
            return {**result, "rows": min(counts[0], result.get("rows", counts[0]))}
    if method in _KEEP_ROWS:
        return result
    return {key: value for key, value in result.items() if key in ("path", "streaming", "type")}


def _prompts(script: Source, result: ScriptSetup) -> None:
    """Read the prompts and their format from the rows that the file builds."""
    built = built_prompts(script)
    samples = sample_prompts(script, built)
    if samples is not None:
        result.put("dataset.prompts", samples, built[0].lineno)
    if result.setup.get("dataset", {}).get("format") is None and built and all(map(is_conversation, built)):
        result.put("dataset.format", "conversational", built[0].lineno)


def _train_call(script: Source, result: ScriptSetup) -> None:
    for call in script.calls:
        if isinstance(call.func, ast.Attribute) and call.func.attr == "train":
            owner = source(call.func.value)
            if call.args or call.keywords or "trainer" in owner.lower():
                result.put("launch.train_call", source(call, 200), call.lineno)


def _environment(script: Source, result: ScriptSetup) -> None:
    for statement in script.tree.body:
        if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
            continue
        target, value = statement.targets[0], statement.value
        if not isinstance(target, ast.Subscript) or source(target.value) not in ("os.environ", "environ"):
            continue
        if isinstance(target.slice, ast.Constant) and isinstance(value, ast.Constant):
            name, text = str(target.slice.value), str(value.value)
            put(result.setup, "launch.env", {**result.setup.get("launch", {}).get("env", {}), name: text})
            if name == "CUDA_VISIBLE_DEVICES" and all(part.strip().isdecimal() for part in text.split(",")):
                devices = [int(part) for part in text.split(",")]
                result.put("hardware.cuda_visible_devices", devices, statement.lineno)
