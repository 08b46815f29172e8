// A recorded step's way from its arguments to the queue in one call: check them, bring their bytes to the device, submit.
#pragma once
#include "plan.hpp"
#include "timeline.hpp"
#include <map>

namespace vkgrad {
// An array as a caller of a step gives it. `type` is NumPy's number of its element type.
struct HostArray {
    const char* data;
    int type;
    bool read_only, contiguous;
    size_t rank;
    const std::ptrdiff_t* extents;
};

// What one argument must be, and where its bytes go. From which sizes on each way is taken is said by whoever makes it.
struct ReplayArgument {
    std::shared_ptr<Buffer> place;
    VkDeviceSize offset, nbytes;
    int type;
    std::vector<std::ptrdiff_t> extents;
    // Ways other than writing into `place` where it is mapped; both go by the queue for copies, beside running kernels:
    bool from_page_locked;           // an array that lies in page-locked memory and cannot change is read from there
    std::shared_ptr<Buffer> staging; // else, when not null, it is written here first

    bool takes(const HostArray& array) const;
};

class Replay {
  public:
    // Throws std::invalid_argument unless the plan is finished, and std::out_of_range for a place outside its buffer.
    Replay(std::shared_ptr<Device> device, std::shared_ptr<Plan> plan, std::vector<ReplayArgument> arguments);

    bool takes(const std::vector<HostArray>& arrays) const;
    // Before anything is written the previous run must be over: the ticket to wait for.
    uint64_t previous() const { return plan_->recordings[0]->ticket; }
    VkDeviceSize bytes_to_write(const std::vector<HostArray>& arrays) const; // by this thread, in `upload`
    void upload(const std::vector<HostArray>& arrays);                        // without the GIL where that is much
    Timeline::Outcome try_submit(const std::shared_ptr<Plan>& before); // which may be null, in the same submission

    Device& device() const { return *device_; }

  private:
    std::shared_ptr<Plan> copy_plan(size_t position, const std::shared_ptr<Buffer>& source, VkDeviceSize from);

    std::shared_ptr<Device> device_;
    const std::shared_ptr<Plan> plan_;
    const std::vector<ReplayArgument> arguments_;
    // Of each argument, by the address of its source: a loader's arrays come back again and again.
    std::vector<std::map<const char*, std::shared_ptr<Plan>>> copy_plans_;
    std::vector<std::shared_ptr<Plan>> copies_; // to go before the next submission
    std::vector<std::shared_ptr<Buffer>> sources_;
    Timeline::Moment uploaded_{};
};
} // namespace vkgrad
