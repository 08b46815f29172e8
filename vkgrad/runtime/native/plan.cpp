#include "plan.hpp"
#include "device.hpp"

namespace vkgrad {
Plan::Plan(std::shared_ptr<Device> device, uint32_t copies, uint32_t timestamps, bool for_copies)
    : device_(std::move(device)), copies_(timestamps ? 1 : copies), for_copies_(for_copies), query_count_(timestamps) {
    auto& base = device_->base;
    base.require_usable();
    if (!copies) throw std::invalid_argument("plan: copies must be at least 1");
    if (timestamps) {
        if (!base.adapter.timestamp_bits)
            throw Error(Fault::vulkan, base.adapter.name() + " has no timestamps: time on the host instead");
        VkQueryPoolCreateInfo create{VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO};
        create.queryType = VK_QUERY_TYPE_TIMESTAMP;
        create.queryCount = timestamps;
        base.check(api().vkCreateQueryPool(base.handle(), &create, nullptr, &queries_), "vkCreateQueryPool");
        operations_.push_back(std::make_shared<ResetTimestamps>(queries_, timestamps));
    }
    add_barrier(for_copies ? Barrier::leading_copies() : Barrier::leading());
}

Plan::~Plan() {
    if (device_->base.forked()) { // not ours to free: see loader.hpp
        new auto(std::move(recordings));
        new auto(std::move(operations_));
        return;
    }
    auto& pool = for_copies_ ? device_->copy_sequences : device_->sequences;
    for (auto& recording : recordings) pool.give_back(std::move(recording->sequence));
    api().vkDestroyQueryPool(device_->base.handle(), queries_, nullptr);
}

void Plan::require_recording() const {
    device_->base.require_usable();
    if (finished_) throw std::invalid_argument("this plan is finished: make a new one");
}
void Plan::add_dispatch(std::shared_ptr<Dispatch> dispatch) {
    require_recording();
    operations_.push_back(std::move(dispatch));
    counts_.dispatches++;
}
void Plan::add_barrier(Barrier barrier) {
    require_recording();
    if (device_->base.drop_barriers) return;
    operations_.push_back(std::make_shared<Barrier>(barrier));
    counts_.barriers++;
}
void Plan::add_copy(std::shared_ptr<Copy> copy) {
    require_recording();
    operations_.push_back(std::move(copy));
    counts_.copies++;
}
void Plan::add_fill(std::shared_ptr<Fill> fill) {
    require_recording();
    operations_.push_back(std::move(fill));
    counts_.fills++;
}
uint32_t Plan::add_timestamp() {
    require_recording();
    if (queries_used_ == query_count_)
        throw std::invalid_argument("timestamp: all " + std::to_string(query_count_) +
                                    " are used; ask for more by plan(timestamps=n)");
    operations_.push_back(std::make_shared<Timestamp>(queries_, queries_used_));
    return queries_used_++;
}

void Plan::finish() {
    if (finished_) return;
    require_recording();
    record();
    finished_ = true;
    device_->base.counters.plans++;
}

Plan::Recording* Plan::record() {
    auto recording = std::make_unique<Recording>();
    recording->sequence = (for_copies_ ? device_->copy_sequences : device_->sequences).take();
    auto capture = std::make_shared<Capture>();
    recording->sequence->record(capture);
    for (auto& operation : operations_) recording->sequence->record(operation);
    recording->sequence->end();
    recording->commands = capture->commands;
    auto& counters = device_->base.counters;
    counters.recordings++;
    counters.dispatches_recorded += counts_.dispatches;
    counters.barriers_recorded += counts_.barriers;
    recordings.push_back(std::move(recording));
    return recordings.back().get();
}

std::vector<double> Plan::timestamps_ns() {
    auto& base = device_->base;
    base.require_usable();
    const uint64_t ticket = recordings.empty() ? 0 : recordings[0]->ticket;
    if (!ticket) throw std::invalid_argument("timestamps: submit the plan first");
    if (!device_->timeline.is_done(ticket)) throw std::invalid_argument("timestamps: wait for the plan's ticket first");
    std::vector<uint64_t> ticks(queries_used_);
    if (ticks.empty()) return {};
    base.check(api().vkGetQueryPoolResults(base.handle(), queries_, 0, queries_used_, ticks.size() * sizeof ticks[0],
                                           ticks.data(), sizeof ticks[0],
                                           VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT),
               "vkGetQueryPoolResults");
    const uint32_t bits = base.adapter.timestamp_bits;
    const uint64_t mask = bits >= 64 ? ~0ull : (1ull << bits) - 1;
    std::vector<double> times;
    for (uint64_t tick : ticks)
        times.push_back(double((tick - ticks[0]) & mask) * base.adapter.limits().timestampPeriod);
    return times;
}
} // namespace vkgrad
