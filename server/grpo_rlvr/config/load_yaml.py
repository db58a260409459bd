"""YAML configs: the safe subset, with what YAML 1.1 makes of `1e-6` and of `no` said."""

import re
from dataclasses import dataclass, field
from typing import Any

from grpo_rlvr.config.load_limits import MAX_DEPTH, MAX_KEYS, MAX_VALUES
from grpo_rlvr.errors import InputError

# YAML 1.1 wants a dot in a float, so `1e-6` is a text to it; people write it all the time.
_SCIENTIFIC = re.compile(r"[-+]?[0-9][0-9_]*[eE][-+]?[0-9]+\Z|[-+]?[0-9][0-9_]*\.[0-9_]*[eE][0-9]+\Z")
_NUMBER = re.compile(r"[-+]?[0-9]*\.?[0-9]+([eE][-+]?[0-9]+)?\Z")


@dataclass
class YamlText:
    """A parsed YAML document."""

    value: Any
    lines: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def parse_yaml(text: str, name: str) -> YamlText:
    """Return the value, the line of every key as a dotted path, and what was converted.

    Raises:
        InputError: not YAML, several documents, a tag that builds objects, a duplicate key, too deep or too large
            once its anchors are expanded.
    """
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        _count_events(yaml.parse(text, Loader=loader), name)
        root = yaml.compose(text, Loader=loader)
    except yaml.YAMLError as error:
        raise InputError(f"not valid YAML: {_problem(error)}", where=name, remedy="Mend it there.") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"not valid YAML: {error}", where=name, remedy="Mend it.") from None
    if root is None:
        raise InputError("holds no value", where=name, remedy="Give GRPOConfig keyword arguments.")
    _refuse_bomb(root, name)
    result = YamlText(None)
    result.value = _construct(root, "", result, name)
    return result


def _problem(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error).splitlines()[0]
    return f"{problem} at line {mark.line + 1}, column {mark.column + 1}" if mark is not None else str(problem)


def _count_events(events: Any, name: str) -> None:
    # Counting first keeps a text of 10,000 keys or 1,000 levels from being built at all.
    import yaml

    depth = documents = 0
    for count, event in enumerate(events, start=1):
        documents += isinstance(event, yaml.DocumentStartEvent)
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise InputError(
                f"nested deeper than {MAX_DEPTH} levels at line {event.start_mark.line + 1}",
                where=name,
                remedy="A config is one mapping with few levels.",
            )
        if count > 8 * MAX_KEYS:
            raise InputError(
                f"more than {4 * MAX_KEYS:,} keys and values (the limit is {MAX_KEYS:,} keys)",
                where=name,
                remedy="A config holds GRPOConfig keyword arguments only (about 230 fields exist).",
            )
    if documents > 1:
        raise InputError(f"{documents} YAML documents in one text", where=name, remedy="Keep one of them.")


def _children(node: Any) -> list[Any]:
    if isinstance(node.value, str):
        return []
    return [child for item in node.value for child in (item if isinstance(item, tuple) else (item,))]


def _refuse_bomb(root: Any, name: str) -> None:
    # The size after expansion, counted without expanding: aliases share nodes, so each node is counted once.
    sizes: dict[int, int] = {}
    open_nodes: set[int] = set()

    def size(node: Any) -> int:
        if id(node) in open_nodes:
            raise InputError("an anchor that contains itself", where=name, remedy="Write the values out.")
        if id(node) not in sizes:
            open_nodes.add(id(node))
            sizes[id(node)] = 1 + sum(size(child) for child in _children(node))
            open_nodes.discard(id(node))
        return sizes[id(node)]

    total = size(root)
    if total > MAX_VALUES:
        raise InputError(
            f"its anchors expand to {total:.3g} values; the limit is {MAX_VALUES:,}",
            where=name,
            remedy="Write the values out.",
        )


def _construct(node: Any, path: str, result: YamlText, name: str) -> Any:
    kind = node.tag.rpartition(":")[2]
    if not node.tag.startswith("tag:yaml.org,2002:") or "/" in node.tag.removeprefix("tag:yaml.org,2002:"):
        raise InputError(
            f"tag {node.tag} at line {node.start_mark.line + 1} builds an object",
            where=name,
            remedy="Write plain values.",
        )
    if kind == "map":
        return _mapping(node, path, result, name)
    if isinstance(node.value, list):
        return [_construct(child, f"{path}[{index}]", result, name) for index, child in enumerate(node.value)]
    return _scalar(node, kind, path, result, name)


def _mapping(node: Any, path: str, result: YamlText, name: str) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    own: dict[str, Any] = {}
    for key_node, value_node in node.value:
        line = key_node.start_mark.line + 1
        if key_node.tag == "tag:yaml.org,2002:merge":
            parts = value_node.value if value_node.tag.endswith(":seq") else [value_node]
            for part in parts:
                inherited = _construct(part, path, result, name)
                if not isinstance(inherited, dict):
                    raise InputError(f"'<<' at line {line} merges no mapping", where=name, remedy="Write it out.")
                merged = {**inherited, **merged}
            continue
        if not isinstance(key_node.value, str):
            raise InputError(f"a key at line {line} is not a text", where=name, remedy="Write a plain key.")
        key = key_node.value
        if key in own:
            raise InputError(
                f"key '{key}' occurs twice, the second time at line {line}; YAML readers keep the last without a word",
                where=name,
                remedy="Keep one of them.",
            )
        dotted = f"{path}.{key}" if path else key
        result.lines[dotted] = line
        own[key] = _construct(value_node, dotted, result, name)
    return {**merged, **own}


def _scalar(node: Any, kind: str, path: str, result: YamlText, name: str) -> Any:
    text, line, plain = node.value, node.start_mark.line + 1, not node.style
    if kind == "null":
        return None
    if kind == "bool":
        return _boolean(text, path, line, result)
    if kind == "int":
        return _integer(text, path, line, name)
    if kind == "float":
        return text if ":" in text else float(re.sub(r"\.(inf|nan)$", r"\1", text.replace("_", "").lower()))
    if plain and _SCIENTIFIC.match(text):
        number = float(text.replace("_", ""))
        result.notes.append(
            f"{path} at line {line}: YAML 1.1 reads {text} as a text, since it has no dot; taken as the number "
            f"{number:g} (write {_dotted(text)})."
        )
        return number
    if not plain and _NUMBER.match(text) and not path.endswith("]"):
        result.notes.append(f"{path} at line {line}: '{text}' is quoted and so a text, not a number.")
    return text


def _dotted(text: str) -> str:
    mantissa, _, exponent = text.lower().partition("e")
    mantissa = mantissa if "." in mantissa else mantissa + ".0"
    return f"{mantissa}e{exponent if exponent[0] in '+-' else '+' + exponent}"


def _boolean(text: str, path: str, line: int, result: YamlText) -> Any:
    truth = text.lower() in {"yes", "true", "on", "y"}
    if text.lower() in {"true", "false"}:
        return truth
    result.notes.append(f"{path} at line {line}: YAML 1.1 reads {text} as {str(truth).lower()}.")
    return truth


def _integer(text: str, path: str, line: int, name: str) -> Any:
    if ":" in text:
        # YAML 1.1 reads 1:30 as 90; nobody who writes it in a config means that.
        return text
    digits = text.replace("_", "")
    try:
        if digits.lstrip("+-").startswith("0") and digits.lstrip("+-").isdecimal() and len(digits.lstrip("+-")) > 1:
            return int(digits, 8)
        return int(digits, 0)
    except ValueError as error:
        raise InputError(f"'{path}' at line {line} is no usable integer: {error}", where=name) from None
