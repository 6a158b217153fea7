export CUDA_DEVICE_MAX_CONNECTIONS=1
N=$((8*${NNODES:-2}))
ARGS="
  --num-layers 80 --hidden-size 8192 \
  --num-attention-heads 64 --tensor-model-parallel-size ${TP:-8} # x
"
OPT=(--bf16 --swiglu "a b")
if [ "$TP" -gt 1 ]; then OPT+=(--sequence-parallel); fi
torchrun --nproc_per_node $N pretrain_gpt.py $ARGS "${OPT[@]}" | tee log
