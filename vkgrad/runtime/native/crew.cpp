#include "crew.hpp"
#include <chrono>
#include <system_error>
#include <thread>
#include <unistd.h>

namespace vkgrad {
static constexpr auto lookout = std::chrono::microseconds(200); // longer than the pauses within a training step
static constexpr auto courtesy = std::chrono::microseconds(30);

static void pause() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#else
    std::this_thread::yield();
#endif
}

// Looks again and again until `done`, or for so long; after a while, others may have the processor in between: on a busy
// machine they are who is waited for.
template <class Done> static void wait_until(Done done, std::chrono::nanoseconds patience = std::chrono::nanoseconds::max()) {
    const auto start = std::chrono::steady_clock::now();
    while (!done()) {
        const auto waited = std::chrono::steady_clock::now() - start;
        if (waited > patience) return;
        if (waited > courtesy)
            std::this_thread::yield();
        else
            pause();
    }
}

SpinningCrew& SpinningCrew::get() {
    static std::mutex mutex;
    static SpinningCrew* crew = nullptr; // never destroyed: its threads sleep in it when the process ends
    static pid_t process = 0;
    std::lock_guard<std::mutex> lock(mutex);
    if (process != getpid()) crew = new SpinningCrew, process = getpid(); // a fork copies no threads
    return *crew;
}

void SpinningCrew::share(int64_t parts, unsigned threads, const Work& work) {
    std::unique_lock<std::mutex> alone(one_at_a_time_, std::defer_lock);
    if (threads < 2 || parts < 2 || !alone.try_lock()) {
        for (int64_t part = 0; part < parts; part++) work(part);
        return;
    }
    start(threads - 1);
    work_ = &work, parts_ = parts, next_ = 0, wanted_ = threads - 1;
    open_ = true;
    round_++;
    if (asleep_) {
        { std::lock_guard<std::mutex> lock(mutex_); }
        wake_.notify_all();
    }
    take_parts();
    open_ = false;
    wait_until([this] { return at_work_ == 0; });
}

void SpinningCrew::start(unsigned threads) {
    for (; started_ < threads; started_++) {
        try {
            std::thread([this, number = started_] { stand_by(number); }).detach();
        } catch (const std::system_error&) { // no more threads to be had
            return;
        }
    }
}

void SpinningCrew::take_parts() {
    for (int64_t part = next_++; part < parts_; part = next_++) (*work_)(part);
}

void SpinningCrew::stand_by(unsigned number) {
    for (uint64_t seen = 0;;) {
        wait_until([&] { return round_ != seen; }, lookout);
        if (round_ == seen) {
            std::unique_lock<std::mutex> lock(mutex_);
            asleep_++;
            wake_.wait(lock, [&] { return round_ != seen; });
            asleep_--;
        }
        seen = round_;
        at_work_++; // before it looks whether there is work: who closes the work waits for this to be 0
        if (open_ && number < wanted_) take_parts();
        at_work_--;
    }
}
} // namespace vkgrad
