#include "replay.hpp"
#include "device.hpp"
#include "host_copy.hpp"
#include <algorithm>

namespace vkgrad {
constexpr size_t most_copy_plans = 16; // of one argument; each keeps the memory that it reads

bool ReplayArgument::takes(const HostArray& array) const {
    return array.type == type && array.contiguous && array.rank == extents.size() &&
           std::equal(extents.begin(), extents.end(), array.extents);
}

Replay::Replay(std::shared_ptr<Device> device, std::shared_ptr<Plan> plan, std::vector<ReplayArgument> arguments)
    : device_(std::move(device)), plan_(std::move(plan)), arguments_(std::move(arguments)),
      copy_plans_(arguments_.size()) {
    if (!plan_->is_finished()) throw std::invalid_argument("replay: the plan is not finished: call its finish()");
    for (auto& argument : arguments_) {
        argument.place->require_inside(argument.offset, argument.nbytes, "replay: argument");
        if (argument.staging) argument.staging->require_inside(0, argument.nbytes, "replay: staging");
        if (!argument.staging && !argument.place->mapped())
            throw std::invalid_argument("replay: an argument's place is neither mapped nor has it a staging buffer");
    }
}

bool Replay::takes(const std::vector<HostArray>& arrays) const {
    if (arrays.size() != arguments_.size()) return false;
    for (size_t i = 0; i < arrays.size(); i++)
        if (!arguments_[i].takes(arrays[i])) return false;
    return true;
}

VkDeviceSize Replay::bytes_to_write(const std::vector<HostArray>& arrays) const {
    VkDeviceSize bytes = 0;
    for (size_t i = 0; i < arrays.size(); i++)
        if (!(arguments_[i].from_page_locked && arrays[i].read_only)) bytes += arguments_[i].nbytes;
    return bytes;
}

void Replay::upload(const std::vector<HostArray>& arrays) {
    device_->base.require_usable();
    copies_.clear();
    sources_.clear();
    for (size_t i = 0; i < arrays.size(); i++) {
        auto& argument = arguments_[i];
        const char* data = arrays[i].data;
        if (argument.from_page_locked && arrays[i].read_only)
            if (auto source = device_->page_locked.find(data, argument.nbytes)) {
                copies_.push_back(copy_plan(i, source, VkDeviceSize(data - source->mapped())));
                sources_.push_back(std::move(source));
                continue;
            }
        if (argument.staging) {
            copy_bytes(argument.staging->mapped(), data, argument.nbytes);
            copies_.push_back(copy_plan(i, argument.staging, 0));
        } else
            copy_bytes(argument.place->mapped() + argument.offset, data, argument.nbytes);
    }
}

std::shared_ptr<Plan> Replay::copy_plan(size_t position, const std::shared_ptr<Buffer>& source, VkDeviceSize from) {
    auto& known = copy_plans_[position];
    auto& plan = known[source->mapped() + from];
    if (plan) return plan; // which keeps its source, so that nothing else can lie there
    auto& argument = arguments_[position];
    auto made = std::make_shared<Plan>(device_, 1, 0, true);
    made->add_copy(std::make_shared<Copy>(*device_, argument.place, source, argument.nbytes, argument.offset, from));
    made->finish();
    if (known.size() > most_copy_plans) {
        known.clear();
        return known[source->mapped() + from] = made;
    }
    return plan = made;
}

Timeline::Outcome Replay::try_submit(const std::shared_ptr<Plan>& before) {
    if (!copies_.empty()) {
        const auto copied = device_->copy_timeline.try_submit(copies_);
        if (!copied.ticket) throw std::logic_error("replay: a copy of an earlier run is still under way");
        uploaded_ = {&device_->copy_timeline, copied.ticket};
        for (auto& source : sources_) source->read_until = copied.ticket;
        copies_.clear();
        sources_.clear();
    }
    std::vector<std::shared_ptr<Plan>> plans{plan_};
    if (before) plans.insert(plans.begin(), before);
    const auto outcome = device_->timeline.try_submit(plans, uploaded_);
    if (outcome.ticket) uploaded_ = {};
    return outcome;
}
} // namespace vkgrad
