#include "host_copy.hpp"
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <mutex>
#include <system_error>
#include <thread>

namespace vkgrad {
namespace {
constexpr size_t page = 4096, worth = 1 << 18; // bytes a thread must have to move to be worth waking
constexpr unsigned most = 8;                   // and no more than half the processors, which have other work too

using Work = std::function<void(size_t first, size_t last)>;

// Starting a thread takes some 30 us and waking one a few, so they stay, asleep between copies. Whoever asks for a copy
// takes part in it and waits for nobody who has not begun: late threads, or those that a fork has lost, cost nothing.
class Crew {
  public:
    static Crew& get() {
        static Crew* const crew = new Crew; // never destroyed: its threads sleep in it when the process ends
        return *crew;
    }
    std::mutex one_at_a_time;

    // Calls `work(first, last)` for parts of 0 to `count`; each but the last is a multiple of `unit`.
    void share_out(size_t count, size_t unit, unsigned threads, const Work& work) {
        {
            std::lock_guard<std::mutex> lock(mutex_);
            start(threads - 1);
            work_ = &work, count_ = count, next_ = 0;
            part_ = (count / threads / 4 / unit + 1) * unit; // small, since threads wake at different times
            wanted_ = threads - 1;
        }
        wake_.notify_all();
        take_parts();
        std::unique_lock<std::mutex> lock(mutex_);
        wanted_ = 0;
        done_.wait(lock, [this] { return at_work_ == 0; });
    }

  private:
    void start(unsigned threads) {
        for (; started_ < threads; started_++) {
            try {
                std::thread([this] { stand_by(); }).detach();
            } catch (const std::system_error&) { // no more threads to be had
                return;
            }
        }
    }
    void take_parts() {
        for (size_t start = next_.fetch_add(part_); start < count_; start = next_.fetch_add(part_))
            (*work_)(start, std::min(start + part_, count_));
    }
    void stand_by() {
        std::unique_lock<std::mutex> lock(mutex_);
        for (;;) {
            wake_.wait(lock, [this] { return wanted_ > 0; });
            wanted_--;
            at_work_++;
            lock.unlock();
            take_parts();
            lock.lock();
            if (--at_work_ == 0) done_.notify_one();
        }
    }

    std::mutex mutex_;
    std::condition_variable wake_, done_;
    unsigned started_ = 0, wanted_ = 0, at_work_ = 0;
    const Work* work_ = nullptr;
    size_t count_ = 0, part_ = 1;
    std::atomic<size_t> next_{0};
};

// By several threads where so many bytes are worth it, and nobody else has them at work.
void share_out(size_t bytes, size_t count, size_t unit, unsigned threads, const Work& work) {
    if (!threads)
        threads = unsigned(std::min({bytes / worth, size_t(most), size_t(std::thread::hardware_concurrency() / 2)}));
    if (threads > 1) {
        Crew& crew = Crew::get();
        std::unique_lock<std::mutex> alone(crew.one_at_a_time, std::try_to_lock);
        if (alone) return crew.share_out(count, unit, threads, work);
    }
    work(0, count);
}
} // namespace

void copy_bytes(char* target, const char* source, size_t count, unsigned threads) {
    share_out(count, count, page, threads,
              [=](size_t first, size_t last) { std::memcpy(target + first, source + first, last - first); });
}

void gather_rows(char* target, const char* source, size_t row_bytes, const int64_t* rows, size_t count) {
    share_out(row_bytes * count, count, 1, 0, [=](size_t first, size_t last) {
        for (size_t row = first; row < last; row++)
            std::memcpy(target + row * row_bytes, source + size_t(rows[row]) * row_bytes, row_bytes);
    });
}
} // namespace vkgrad
