f() { local a=$1; for i in 1 2; do run "$a" ${i##*/} $(x `y`); done; }
case $M in 7b|8b) L=32;; *) L=${#M};; esac
while [[ -n $X && ( $Y == a* || ! -z $Z ) ]]; do shift; done
cat <<EOF > ds.json
{"stage": $S}
EOF
eval "f $((1+2*3%4**2))"; (cd x && vllm serve Qwen3-8B -tp 2) || exit 1
