#include "timeline.hpp"
#include "device.hpp"
#include <algorithm>
#include <chrono>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace vkgrad {
static void pause_briefly() {
#if defined(__x86_64__)
    _mm_pause();
#endif
}

Timeline::Timeline(LogicalDevice& device, vk::Queue queue, bool for_copies)
    : device_(device), queue_(queue), for_copies_(for_copies) {
    VkSemaphoreTypeCreateInfo type{VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO};
    type.semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE;
    VkSemaphoreCreateInfo create{VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO};
    create.pNext = &type;
    device.check(api().vkCreateSemaphore(device.handle(), &create, nullptr, &semaphore_), "vkCreateSemaphore");
}
Timeline::~Timeline() { api().vkDestroySemaphore(device_.handle(), semaphore_, nullptr); }

void Timeline::poll(Finished& finished) {
    if (in_flight_.empty()) return;
    uint64_t value = 0;
    device_.check(api().vkGetSemaphoreCounterValue(device_.handle(), semaphore_, &value), "vkGetSemaphoreCounterValue");
    // Some drivers report a lost device by a counter beyond anything that was submitted.
    if (value > latest_) device_.check(VK_ERROR_DEVICE_LOST, "vkGetSemaphoreCounterValue");
    completed_ = value;
    while (!in_flight_.empty() && in_flight_.front().ticket <= value) {
        finished.push_back(std::move(in_flight_.front()));
        in_flight_.pop_front();
    }
}

Timeline::Outcome Timeline::try_submit(const std::vector<std::shared_ptr<Plan>>& plans, Moment after) {
    Finished finished; // declared before the lock: destroyed after it is released
    std::lock_guard<std::mutex> lock(mutex_);
    device_.require_usable();
    if (plans.empty()) throw std::invalid_argument("submit: no plan was given");
    poll(finished);
    std::vector<Plan::Recording*> chosen;
    std::vector<VkCommandBuffer> commands;
    for (auto& plan : plans) {
        if (&plan->device().base != &device_) throw std::invalid_argument("submit: the plan belongs to another device");
        if (!plan->is_finished())
            throw std::invalid_argument("submit: the plan is not finished: call its finish() first");
        if (plan->is_for_copies() != for_copies_)
            throw std::invalid_argument("submit: a plan for copies only goes with the step that uses what they bring");
        Plan::Recording* free = nullptr;
        uint64_t first_done = UINT64_MAX; // of those in flight
        for (auto& recording : plan->recordings) {
            if (std::find(chosen.begin(), chosen.end(), recording.get()) != chosen.end()) continue;
            if (recording->ticket <= completed_)
                free = recording.get();
            else
                first_done = std::min(first_done, recording->ticket);
        }
        if (!free && plan->may_record_more()) free = plan->record();
        if (!free && first_done == UINT64_MAX)
            throw std::invalid_argument("submit: the same plan is given more often than it has copies: plan(copies=n)");
        if (!free) return {0, first_done};
        chosen.push_back(free);
        commands.push_back(free->commands);
    }
    const uint64_t ticket = latest_ + 1;
    VkTimelineSemaphoreSubmitInfo value{VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO};
    value.signalSemaphoreValueCount = 1;
    value.pSignalSemaphoreValues = &ticket;
    VkSubmitInfo submit{VK_STRUCTURE_TYPE_SUBMIT_INFO};
    submit.pNext = &value;
    submit.commandBufferCount = uint32_t(commands.size());
    submit.pCommandBuffers = commands.data();
    submit.signalSemaphoreCount = 1;
    submit.pSignalSemaphores = &semaphore_;
    const VkPipelineStageFlags stages = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT;
    if (after.timeline) {
        value.waitSemaphoreValueCount = submit.waitSemaphoreCount = 1;
        value.pWaitSemaphoreValues = &after.ticket;
        submit.pWaitSemaphores = &after.timeline->semaphore_;
        submit.pWaitDstStageMask = &stages;
    }
    std::unique_lock<std::mutex> alone(device_.submitting);
    device_.check(device_.lose_next_submission ? VK_ERROR_DEVICE_LOST
                                               : api().vkQueueSubmit(queue_, 1, &submit, VK_NULL_HANDLE),
                  "vkQueueSubmit");
    alone.unlock();
    latest_ = ticket;
    for (auto* recording : chosen) recording->ticket = ticket;
    in_flight_.push_back({ticket, plans});
    auto& counters = device_.counters;
    counters.submissions++;
    for (auto& plan : plans) {
        counters.dispatches += plan->counts().dispatches;
        counters.barriers += plan->counts().barriers;
        counters.copies += plan->counts().copies;
        counters.fills += plan->counts().fills;
    }
    return {ticket, 0};
}

bool Timeline::is_done(uint64_t ticket) {
    device_.require_usable();
    if (ticket <= completed_) return true;
    Finished finished;
    std::lock_guard<std::mutex> lock(mutex_);
    if (ticket > latest_)
        throw std::invalid_argument("ticket " + std::to_string(ticket) + " was never given out by submit()");
    poll(finished);
    return ticket <= completed_;
}

bool Timeline::wait(uint64_t ticket, uint32_t spin_us, uint64_t block_us) {
    using clock = std::chrono::steady_clock;
    if (is_done(ticket)) return true;
    if (spin_us) {
        const auto end = clock::now() + std::chrono::microseconds(spin_us);
        do {
            for (int i = 0; i < 8; i++) pause_briefly();
            if (is_done(ticket)) return true;
        } while (clock::now() < end);
    }
    VkSemaphoreWaitInfo wait{VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO};
    wait.semaphoreCount = 1;
    wait.pSemaphores = &semaphore_;
    wait.pValues = &ticket;
    device_.check(api().vkWaitSemaphores(device_.handle(), &wait, block_us * 1000), "vkWaitSemaphores");
    return is_done(ticket);
}

void Timeline::drain() noexcept {
    if (device_.forked()) return;    // it would wait for threads that are not in this process
    std::deque<Submission> finished; // declared before the lock: destroyed after it is released
    std::lock_guard<std::mutex> lock(mutex_);
    std::lock_guard<std::mutex> alone(device_.submitting);
    api().vkDeviceWaitIdle(device_.handle()); // returns at once from a lost device
    completed_ = latest_.load();
    finished.swap(in_flight_);
}
} // namespace vkgrad
