"""Construct the real GRPOConfig for each config on stdin; stdlib and the training libraries only.

A line is `{"config": ..., "world": N}`; the answer is a line `null`, or the exception's text. The world size is
patched, and a GPU with bf16 is claimed, so that only the config itself is judged.
"""

import json
import os
import sys
import warnings


def main() -> None:
    """Answer line by line."""
    warnings.simplefilter("ignore")
    os.environ["TRANSFORMERS_VERBOSITY"] = "error"
    import transformers.training_args as training_args
    from trl import GRPOConfig

    training_args.is_torch_bf16_gpu_available = lambda: True
    training_args.is_torch_tf32_available = lambda: True
    training_args.enable_tf32 = lambda enable: None
    world = [1]
    GRPOConfig.world_size = property(lambda self: world[0])
    for line in sys.stdin:
        case = json.loads(line)
        world[0] = case["world"]
        try:
            GRPOConfig(**{"output_dir": os.devnull, **case["config"]})
            answer = None
        except Exception as error:
            answer = f"{type(error).__name__}: {error}"[:300]
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
