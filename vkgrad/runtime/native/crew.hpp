// Threads that compute shares of one piece of work at a time.
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>

namespace vkgrad {
// Waking a thread costs as much as a small kernel, so one that has just worked looks out for more before it sleeps. Whoever
// brings work takes part in it and waits for nobody who has not begun: late threads, or those that a fork has lost, cost
// nothing.
class SpinningCrew {
  public:
    using Work = std::function<void(int64_t part)>;

    static SpinningCrew& get(); // of this process

    // Calls `work` for each part from 0 to `parts`, by up to `threads` threads. If another caller has them at work, by the
    // calling thread alone. `work` must not throw.
    void share(int64_t parts, unsigned threads, const Work& work);

  private:
    void start(unsigned threads);
    void stand_by(unsigned number);
    void take_parts();

    std::mutex one_at_a_time_, mutex_;
    std::condition_variable wake_;
    std::atomic<uint64_t> round_{0};
    std::atomic<int64_t> next_{0};
    std::atomic<unsigned> at_work_{0}, asleep_{0}, wanted_{0};
    std::atomic<bool> open_{false};
    unsigned started_ = 0;
    int64_t parts_ = 0;
    const Work* work_ = nullptr;
};
} // namespace vkgrad
