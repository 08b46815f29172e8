// A list of operations, recorded once and submitted any number of times.
#pragma once
#include "operations.hpp"
#include <kompute/Sequence.hpp>

namespace vkgrad {
struct PlanCounts {
    uint64_t dispatches = 0, barriers = 0, copies = 0, fills = 0;
};

class Plan {
  public:
    // A command buffer can be in flight once, so a plan has up to `copies` of them, recorded when first needed.
    // With timestamps it has one, because the queries are shared.
    // One `for_copies` is submitted to the queue of that name and holds nothing else.
    Plan(std::shared_ptr<Device> device, uint32_t copies, uint32_t timestamps, bool for_copies = false);
    ~Plan();
    Plan(const Plan&) = delete;

    void add_dispatch(std::shared_ptr<Dispatch> dispatch);
    void add_barrier(Barrier barrier);
    void add_copy(std::shared_ptr<Copy> copy);
    void add_fill(std::shared_ptr<Fill> fill);
    uint32_t add_timestamp();            // its index
    void finish();                       // records; nothing can be added after it
    std::vector<double> timestamps_ns(); // of the last submission, counted from the first of them

    Device& device() const { return *device_; }
    bool is_finished() const { return finished_; }
    bool is_for_copies() const { return for_copies_; }
    const PlanCounts& counts() const { return counts_; }

    // For Timeline, under its lock.
    struct Recording {
        std::shared_ptr<kp::Sequence> sequence;
        VkCommandBuffer commands = VK_NULL_HANDLE;
        uint64_t ticket = 0; // of its latest submission
    };
    std::vector<std::unique_ptr<Recording>> recordings;
    bool may_record_more() const { return recordings.size() < copies_; }
    Recording* record();

  private:
    void require_recording() const;

    std::shared_ptr<Device> device_; // first: what follows is destroyed before it
    const uint32_t copies_;
    const bool for_copies_;
    std::vector<std::shared_ptr<kp::OpBase>> operations_;
    PlanCounts counts_;
    VkQueryPool queries_ = VK_NULL_HANDLE;
    uint32_t query_count_ = 0, queries_used_ = 0;
    bool finished_ = false;
};
} // namespace vkgrad
