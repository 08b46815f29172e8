#!/bin/sh
# Every benchmark on a machine with a GPU and no network: sh benchmarks/gpu.sh [WHEELS [DEVICE]]
#
# WHEELS is a folder with a wheel of vkgrad, and of what it needs and python3 here lacks; without one, vkgrad must be
# installed. DEVICE is what the name of the Vulkan device must contain (NVIDIA). Loader packages are taken from
# .gl/*.deb. Everything goes to $OUT (build/gpu), the lines for bench_results/ too; the tables are printed again at the
# end, that of the goals last. Short stages come before the race, which takes what they leave of SECONDS_ALLOWED (480)
# but for a hundred and forty seconds. What was cut short or not reached is named. VKGRAD_COMMIT says what is measured
# where the copy has no history.
set -u
cd "$(dirname "$0")/.." || exit 1
device=${2:-NVIDIA}
out=${OUT:-$PWD/build/gpu}
python=${PYTHON:-python3}
ends=$(($(date +%s) + ${SECONDS_ALLOWED:-480}))
mkdir -p "$out"

for package in .gl/*.deb; do
    if [ -e "$package" ]; then dpkg -x "$package" / || exit 1; fi
done
if [ "$(id -u)" = 0 ]; then ldconfig; fi

target=$(mktemp -d)
trap 'rm -rf "$target"' EXIT
if [ -n "${1:-}" ]; then
    "$python" -m pip install -q --no-index --no-deps --target "$target" "$1"/*.whl || exit 1
    # The installed package, not the sources beside the benchmarks: those have no native part.
    export PYTHONPATH="$target:$PWD${PYTHONPATH:+:$PYTHONPATH}"
else
    export PYTHONPATH="${PYTHONPATH:+$PYTHONPATH:}$PWD"
fi
export PYTHONSAFEPATH=1 PYTHONWARNINGS=ignore
export VKGRAD_DEVICE="$device" VKGRAD_HOST=raise VKGRAD_CACHE_DIR="$target/cache"

if ! "$python" -m vkgrad info >"$out/info.txt" 2>&1; then
    # Containers may hold the driver without telling the loader.
    driver=$(find /usr /etc -name 'nvidia_icd*.json' 2>/dev/null | head -n 1)
    if [ -n "$driver" ]; then export VK_DRIVER_FILES="$driver"; fi
    "$python" -m vkgrad info >"$out/info.txt" 2>&1 || { cat "$out/info.txt"; exit 1; }
fi
head -n 20 "$out/info.txt"

failed=
# stage NAME MOST_SECONDS MODULE ARGUMENTS...: run it for no longer than that, nor than all may take
stage() {
    name=$1; most=$2; module=$3; shift 3
    left=$((ends - $(date +%s)))
    if [ "$left" -lt 10 ]; then failed="$failed $name(not reached)"; return; fi
    if [ "$left" -lt "$most" ]; then most=$left; fi
    started=$(date +%s)
    timeout "$most" "$python" -m "$module" "$@" >"$out/$name.txt" 2>"$out/$name.log" || failed="$failed $name($?)"
    echo "$name: $(($(date +%s) - started)) s"
}
# keep NAME: the lines that a stage wrote become records
keep() {
    if [ -s "$out/$1.jsonl" ]; then "$python" -m benchmarks.collect "$1" "$out/$1.jsonl" --out "$results"; fi
}
results=$out/bench_results
stage products 50 benchmarks.products --shapes gemm,odd,half --plans --out "$out/products.jsonl"
keep products
stage convolutions 50 benchmarks.convolutions --layers resnet,small --rows none --out "$out/convolutions.jsonl"
keep convolutions
stage bandwidth 70 benchmarks.bandwidth --seconds 55 --cases "a * b,softmax,layer norm,sum over axis,transpose" \
    --out "$out/bandwidth.jsonl"
keep bandwidth
stage routines 95 benchmarks.routines --seconds 75 --out "$out/routines.jsonl"
keep routines
stage first_step 40 benchmarks.first_step --models mlp --runs 3 --out "$results"
# The race begins no case that would keep it from ending in time.
left=$((ends - $(date +%s) - 140))
if [ "$left" -lt 0 ]; then left=0; fi
stage race $((left + 20)) benchmarks.race --device "$device" --rounds 3 --budget 0.3 --out "$results" \
    --minutes "$(echo "$left" | awk '{print $1 / 60}')"
stage kernels 40 vkgrad bench kernels --device "$device" --out "$results"
stage hmc 60 benchmarks.hmc --seconds 40 --out "$out/hmc.jsonl"
keep hmc
stage fusion 45 benchmarks.fusion --seconds 35 --out "$out/fusion.jsonl"
keep fusion
stage ulps 90 benchmarks.ulps --blocks 100 --slow-blocks 20 --out "$out/ulps.json"
stage memory 30 vkgrad bench memory --device "$device" --out "$results"
stage costs 30 vkgrad bench costs --device "$device" --out "$results"

for name in ulps memory costs fusion hmc routines kernels first_step bandwidth convolutions products race; do
    printf '\n== %s\n' "$name"
    if [ -e "$out/$name.txt" ]; then cat "$out/$name.txt"; fi
    if [ -s "$out/$name.log" ]; then tail -n 3 "$out/$name.log"; fi
done
printf '\n== goals\n'
"$python" -m benchmarks.goals --from "$results"
if [ -n "$failed" ]; then echo "not well:$failed"; exit 1; fi
