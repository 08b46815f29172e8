#!/bin/sh
# Every benchmark on a machine with a GPU and no network: sh benchmarks/gpu.sh WHEELS [DEVICE]
#
# WHEELS is a folder with a wheel of vkgrad, and of what it needs and python3 here lacks. DEVICE is what the name of
# the Vulkan device must contain (NVIDIA). Loader packages are taken from .gl/*.deb. Everything goes to $OUT (build/gpu);
# the tables are printed again at the end. The order is that of importance, and the whole ends within nine minutes
# (SECONDS_ALLOWED): what was not reached is named. VKGRAD_COMMIT says what is measured where the copy has no history.
set -u
cd "$(dirname "$0")/.." || exit 1
wheels=${1:?usage: sh benchmarks/gpu.sh WHEELS [DEVICE]}
device=${2:-NVIDIA}
out=${OUT:-$PWD/build/gpu}
python=${PYTHON:-python3}
ends=$(($(date +%s) + ${SECONDS_ALLOWED:-540}))
mkdir -p "$out"

for package in .gl/*.deb; do
    if [ -e "$package" ]; then dpkg -x "$package" / || exit 1; fi
done
if [ "$(id -u)" = 0 ]; then ldconfig; fi

target=$(mktemp -d)
trap 'rm -rf "$target"' EXIT
"$python" -m pip install -q --no-index --no-deps --target "$target" "$wheels"/*.whl || exit 1
# The installed package, not the sources beside the benchmarks: those have no native part.
export PYTHONSAFEPATH=1 PYTHONPATH="$target:$PWD${PYTHONPATH:+:$PYTHONPATH}" PYTHONWARNINGS=ignore
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
results=$out/bench_results
stage check 90 benchmarks.race --check --contenders vkgrad_jit,vkgrad_eager --device "$device" --out "$results"
stage kernels 60 vkgrad bench kernels --device "$device" --out "$results"
# The race begins no case that would keep it from ending in time.
left=$((ends - $(date +%s) - 45))
if [ "$left" -gt 420 ]; then left=420; fi
if [ "$left" -lt 0 ]; then left=0; fi
stage race $((left + 20)) benchmarks.race --device "$device" --out "$results" --minutes "$(echo "$left" | awk '{print $1 / 60}')"
stage memory 60 vkgrad bench memory --device "$device" --out "$results"
stage costs 60 vkgrad bench costs --device "$device" --out "$results"
stage first_step 60 benchmarks.first_step --out "$results"
stage kernels_large 60 vkgrad bench kernels --batches 256,2048 --device "$device" --out "$results" # too long to print again

for name in check first_step memory costs kernels race; do
    printf '\n== %s\n' "$name"
    if [ -e "$out/$name.txt" ]; then cat "$out/$name.txt"; fi
    if [ -s "$out/$name.log" ]; then tail -n 3 "$out/$name.log"; fi
done
if [ -n "$failed" ]; then echo "not well:$failed"; exit 1; fi
