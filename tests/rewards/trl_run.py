"""A few real GRPO steps of a tiny model with our rewards; run by test_reward_trl.py, in one process or two."""

import sys
from pathlib import Path

import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM
from trl import GRPOConfig, GRPOTrainer

from rlvr_rewards import Composite, LengthPenalty, Math, SoftOverlong

TEMPLATE = "{% for m in messages %}{{ m['content'] }}{% endfor %}"


def tokenizer() -> PreTrainedTokenizerFast:
    """Return a tokenizer of single characters."""
    alphabet = [chr(code) for code in range(32, 127)]
    words = {token: index for index, token in enumerate(["<pad>", "<eos>", "<unk>", *alphabet])}
    whole = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    whole.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    made = PreTrainedTokenizerFast(tokenizer_object=whole, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>")
    made.chat_template = TEMPLATE
    return made


def main(shape: str, folder: str) -> None:
    """Train two steps and check what the trainer logged about the rewards."""
    torch.manual_seed(0)
    tokens = tokenizer()
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2, "max_position_embeddings": 64}
    config = Qwen2Config(vocab_size=len(tokens), **sizes, **heads, pad_token_id=0, eos_token_id=1, bos_token_id=None)
    prompts = [f"{number}+1=" for number in range(8)]
    column = prompts if shape == "text" else [[{"role": "user", "content": prompt}] for prompt in prompts]
    rows = {"prompt": column, "gold": [str(number + 1) for number in range(7)] + [None], "other": list("abcdefgh")}
    rewards = [Composite(Math()), LengthPenalty(Math(kind="word")), SoftOverlong(8, 4)]
    arguments = GRPOConfig(
        output_dir=folder,
        per_device_train_batch_size=8,
        num_generations=4,
        max_completion_length=8,
        max_steps=2,
        logging_steps=1,
        use_cpu=True,
        bf16=False,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
    )
    model = Qwen2ForCausalLM(config)
    trainer = GRPOTrainer(
        model, rewards, args=arguments, train_dataset=Dataset.from_dict(rows), processing_class=tokens
    )
    trainer.train()
    logged = trainer.state.log_history[0]
    names = [reward.__name__ for reward in rewards]
    assert len(set(names)) == 3
    for name in names:
        assert f"rewards/{name}/mean" in logged, sorted(logged)
    assert f"{names[0]}/no_answer" in logged and f"{names[0]}/format" in logged, sorted(logged)
    assert f"{names[2]}/overlong" in logged, sorted(logged)
    print("DONE", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], str(Path(sys.argv[2])))
