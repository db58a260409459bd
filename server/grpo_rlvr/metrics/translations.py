"""Column names that people write in their own language, in the words that the table of aliases knows."""

import re

# Stems in Chinese, Korean, Japanese and a few European languages; longer ones are tried first.
_STEMS: dict[str, str] = {
    "奖励标准差": "reward_std", "奖励方差": "reward_std", "零方差": "zero_std", "奖励": "reward", "得分": "reward",
    "熵": "entropy", "截断": "clipped_ratio", "生成长度": "length", "回复长度": "length", "响应长度": "length",
    "回答长度": "length", "输出长度": "length", "长度": "length", "梯度范数": "grad_norm", "学习率": "learning_rate",
    "损失": "loss", "准确": "accuracy", "正确": "accuracy", "耗时": "step_time", "训练步": "step", "步数": "step",
    "步": "step", "轮次": "epoch", "散度": "",
    "보상": "reward", "엔트로피": "entropy", "길이": "length", "정확도": "accuracy", "스텝": "step", "단계": "step",
    "손실": "loss", "클리핑": "clipped_ratio", "절단": "clipped_ratio", "학습률": "learning_rate",
    "報酬": "reward", "エントロピー": "entropy", "応答長": "length", "長さ": "length", "ステップ": "step",
    "損失": "loss", "正解": "accuracy", "精度": "accuracy", "学習率": "learning_rate", "打ち切り": "clipped_ratio",
    "récompense": "reward", "étape": "step", "entropía": "entropy", "longitud": "length", "précision": "accuracy",
    "шаг": "step", "награда": "reward", "энтропия": "entropy", "длина": "length", "точность": "accuracy",
    "потери": "loss",
}  # fmt: skip
# Words that say no more than "mean", "rate", "total" or "training".
_FILLERS = re.compile(r"平均|均值|总|率|比例|比|值|训练|单|合计|평균|총합|합계|비율|률|율|値")
_ORDERED = sorted(_STEMS, key=len, reverse=True)
_REMARK = re.compile(r"[(（][^()（）]*[)）]")


def in_english(name: str) -> str:
    """Return a name in English words, unchanged when a part of it is not known: half a name would be another one."""
    text = _REMARK.sub(" ", name.lower())
    for stem in _ORDERED:
        if stem in text:
            text = text.replace(stem, f" {_STEMS[stem]} ")
    text = _FILLERS.sub(" ", text)
    return text if not any(char.isalpha() and not char.isascii() for char in text) else name
