// Submission. A ticket is a value of one timeline semaphore, so completion costs no object of its own: kp::Sequence's
// own eval makes and destroys a fence each time, which is most of a small step's time on a fast GPU.
#pragma once
#include "logical_device.hpp"
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

namespace vkgrad {
class Plan;

class Timeline {
  public:
    Timeline(LogicalDevice& device, vk::Queue queue, bool for_copies = false);
    ~Timeline();

    struct Outcome {
        uint64_t ticket = 0;   // 0: not submitted, because
        uint64_t wait_for = 0; // a plan has all its copies in flight until this ticket is done
    };
    struct Moment { // when a ticket of another queue is done
        const Timeline* timeline; // null: at once
        uint64_t ticket;
    };
    // All plans in one vkQueueSubmit, in order; the device begins them after `after`.
    Outcome try_submit(const std::vector<std::shared_ptr<Plan>>& plans, Moment after = Moment());

    bool is_done(uint64_t ticket); // throws std::invalid_argument for a ticket never given out
    // Polls for spin_us, then sleeps for up to block_us; whether it is done. The caller looks for signals in between.
    bool wait(uint64_t ticket, uint32_t spin_us, uint64_t block_us);
    void drain() noexcept; // waits for everything, and lets go of it

  private:
    struct Submission {
        uint64_t ticket;
        std::vector<std::shared_ptr<Plan>> plans; // with all they use, until it is done
    };
    using Finished = std::vector<Submission>;
    void poll(Finished& finished); // under the lock; destroy `finished` without it: that frees buffers

    LogicalDevice& device_;
    const vk::Queue queue_;
    const bool for_copies_;
    VkSemaphore semaphore_ = VK_NULL_HANDLE;
    std::mutex mutex_;
    std::deque<Submission> in_flight_;
    std::atomic<uint64_t> completed_{0}, latest_{0};
};
} // namespace vkgrad
