// Device, as Python sees it, and what it says about itself.
#include "bindings.hpp"
#include "replay.hpp"
#include <chrono>
#include <cstdlib>

namespace vkgrad {
static std::string version(uint32_t v) {
    return std::to_string(VK_API_VERSION_MAJOR(v)) + "." + std::to_string(VK_API_VERSION_MINOR(v)) + "." +
           std::to_string(VK_API_VERSION_PATCH(v));
}

static std::string hex(const uint8_t (&bytes)[VK_UUID_SIZE]) {
    std::string text;
    for (uint8_t byte : bytes) (text += "0123456789abcdef"[byte >> 4]) += "0123456789abcdef"[byte & 15];
    return text;
}

static py::tuple triple(const uint32_t (&v)[3]) { return py::make_tuple(v[0], v[1], v[2]); }

py::dict describe(const Adapter& adapter) {
    py::dict out;
    out["index"] = adapter.index;
    out["name"] = adapter.name();
    out["type"] = type_name(adapter.properties.deviceType);
    out["api_version"] = version(adapter.properties.apiVersion);
    out["vendor_id"] = adapter.properties.vendorID;
    out["device_id"] = adapter.properties.deviceID;
    out["driver_version"] = adapter.properties.driverVersion;
    out["driver_name"] = std::string(adapter.properties12.driverName);
    out["driver_info"] = std::string(adapter.properties12.driverInfo);
    out["uuid"] = hex(adapter.properties11.deviceUUID);
    return out;
}

static py::dict limits(const Adapter& adapter) {
    auto& l = adapter.limits();
    py::dict out;
    out["max_storage_buffer_range"] = l.maxStorageBufferRange;
    out["max_storage_buffers"] = l.maxPerStageDescriptorStorageBuffers;
    out["storage_buffer_alignment"] = l.minStorageBufferOffsetAlignment;
    out["max_push_constants_bytes"] = l.maxPushConstantsSize;
    out["max_workgroup_invocations"] = l.maxComputeWorkGroupInvocations;
    out["max_workgroup_size"] = triple(l.maxComputeWorkGroupSize);
    out["max_workgroup_count"] = triple(l.maxComputeWorkGroupCount);
    out["max_shared_memory_bytes"] = l.maxComputeSharedMemorySize;
    out["max_allocation_bytes"] = adapter.properties11.maxMemoryAllocationSize;
    out["max_allocations"] = l.maxMemoryAllocationCount;
    return out;
}

static py::list memory_types(const Adapter& adapter) {
    static const char* const names[] = {"device_local", "host_visible",     "host_coherent",
                                        "host_cached",  "lazily_allocated", "protected"};
    py::list out;
    for (uint32_t i = 0; i < adapter.memory.memoryTypeCount; i++) {
        auto& type = adapter.memory.memoryTypes[i];
        py::list flags;
        for (int bit = 0; bit < 6; bit++)
            if (type.propertyFlags >> bit & 1) flags.append(names[bit]);
        py::dict entry;
        entry["heap"] = type.heapIndex;
        entry["heap_bytes"] = adapter.memory.memoryHeaps[type.heapIndex].size;
        entry["flags"] = flags;
        out.append(entry);
    }
    return out;
}

static py::list cooperative_matrices(const Adapter& adapter) {
    py::list out;
    for (auto& shape : adapter.cooperative_matrices) {
        py::dict entry;
        entry["m"] = shape.m;
        entry["n"] = shape.n;
        entry["k"] = shape.k;
        entry["a"] = shape.a;
        entry["b"] = shape.b;
        entry["c"] = shape.c;
        entry["d"] = shape.d;
        entry["saturating"] = shape.saturating;
        entry["scope"] = shape.scope;
        out.append(entry);
    }
    return out;
}

static py::dict info(const OpenDevice& open) {
    const Adapter& adapter = open.device->base.adapter;
    py::dict out = describe(adapter), kinds;
    for (size_t kind = 0; kind < memory_kinds; kind++)
        kinds[name_of(MemoryKind(kind))] = open.device->memory.memory_type(MemoryKind(kind));
    out["limits"] = limits(adapter);
    out["features"] = adapter.features;
    out["extensions"] = adapter.extensions;
    out["memory_types"] = memory_types(adapter);
    out["memory_kinds"] = kinds;
    out["subgroup_size"] = adapter.properties11.subgroupSize;
    out["subgroup_size_range"] = py::make_tuple(adapter.min_subgroup_size, adapter.max_subgroup_size);
    out["timestamp_period_ns"] = adapter.limits().timestampPeriod;
    out["timestamp_bits"] = adapter.timestamp_bits;
    out["queue_family"] = adapter.queue_family;
    out["copy_family"] = adapter.copy_family;
    out["cooperative_matrices"] = cooperative_matrices(adapter);
    out["spin_us"] = open.device->spin_us;
    return out;
}

static py::dict counters(const OpenDevice& open) {
    auto& c = open.device->base.counters;
    py::dict out;
#define READ(name) out[#name] = c.name.load();
    VKGRAD_COUNTERS(READ)
#undef READ
    return out;
}

static std::shared_ptr<Pipeline> pipeline(OpenDevice& open, const py::object& spirv, uint32_t n_buffers,
                                          const std::map<uint32_t, py::object>& spec, uint32_t subgroup_size,
                                          const py::object& key) {
    PipelineRequest request{
        Bytes(spirv).copy(), n_buffers, {}, subgroup_size, key.is_none() ? std::string() : Bytes(key).copy()};
    for (auto& [id, bytes] : spec) request.constants[id] = Bytes(bytes).copy();
    py::gil_scoped_release nogil;
    // Points at the device's own pipeline and keeps the device.
    return {open.device, open.device->pipelines.get(request)};
}

// Sleeps in slices, so that Ctrl-C ends a wait.
bool wait(Device& device, uint64_t ticket, std::optional<double> timeout_s) {
    // Letting the GIL go invites other threads to take it for their 5 ms, so not for what is over already.
    if (device.timeline.is_done(ticket)) return true;
    using clock = std::chrono::steady_clock;
    const double slice_us = 50000;
    const auto start = clock::now();
    for (uint32_t spin_us = device.spin_us;; spin_us = 0) {
        const double left_us =
            timeout_s ? *timeout_s * 1e6 - std::chrono::duration<double, std::micro>(clock::now() - start).count()
                      : slice_us;
        const uint64_t block_us = uint64_t(std::clamp(left_us, 0.0, slice_us));
        {
            py::gil_scoped_release nogil;
            if (device.timeline.wait(ticket, uint32_t(std::min<uint64_t>(spin_us, block_us)), block_us))
                return true;
        }
        if (PyErr_CheckSignals()) throw py::error_already_set();
        if (timeout_s && left_us <= slice_us) return false;
    }
}

static uint64_t submit(OpenDevice& open, const std::vector<std::shared_ptr<Plan>>& plans) {
    for (;;) {
        Timeline::Outcome outcome;
        {
            py::gil_scoped_release nogil;
            outcome = open.device->timeline.try_submit(plans);
        }
        if (outcome.ticket) return outcome.ticket;
        wait(*open.device, outcome.wait_for, std::nullopt);
    }
}

// VKGRAD_TEST_DROP_BARRIERS: a whole run without barriers, in which synchronization validation must find hazards.
static std::unique_ptr<OpenDevice> open(std::optional<uint32_t> index, std::optional<uint32_t> spin_us,
                                        uint64_t block_bytes, std::optional<bool> mutate_barriers) {
    const bool drop_barriers = mutate_barriers.value_or(std::getenv("VKGRAD_TEST_DROP_BARRIERS") != nullptr);
    py::gil_scoped_release nogil;
    return std::unique_ptr<OpenDevice>(new OpenDevice{Device::open({index, spin_us, block_bytes, drop_barriers})});
}

static std::shared_ptr<Replay> replay(OpenDevice& open, std::shared_ptr<Plan> plan, const py::sequence& given) {
    std::vector<ReplayArgument> arguments;
    for (auto item : given) {
        auto part = item.cast<py::tuple>();
        arguments.push_back({part[0].cast<std::shared_ptr<Buffer>>(), part[1].cast<uint64_t>(),
                             part[2].cast<uint64_t>(), part[3].cast<int>(),
                             part[4].cast<std::vector<std::ptrdiff_t>>(), part[5].cast<bool>(),
                             part[6].cast<std::shared_ptr<Buffer>>()});
    }
    return std::make_shared<Replay>(open.device, std::move(plan), std::move(arguments));
}

void bind_device(py::module_& module) {
    using PlanPointer = std::shared_ptr<Plan>;
    py::class_<OpenDevice>(module, "Device")
        .def(py::init(&open), py::arg("index") = py::none(), py::kw_only(), py::arg("spin_us") = py::none(),
             py::arg("block_bytes") = 64 << 20, py::arg("_mutate_barriers") = py::none())
        .def_property_readonly("info", &info)
        .def_property_readonly("counters", &counters)
        .def(
            "buffer",
            [](OpenDevice& open, uint64_t nbytes, const std::string& kind) {
                return std::make_shared<Buffer>(open.device, nbytes, memory_kind(kind));
            },
            py::arg("nbytes"), py::arg("kind") = "device")
        .def(
            "page_locked",
            [](OpenDevice& open, uint64_t nbytes) {
                auto buffer = std::make_shared<Buffer>(open.device, nbytes, MemoryKind::download);
                open.device->page_locked.add(buffer);
                return buffer;
            },
            py::arg("nbytes"))
        .def("pipeline", &pipeline, py::arg("spirv"), py::arg("n_buffers"),
             py::arg("spec") = std::map<uint32_t, py::object>(), py::arg("subgroup_size") = 0, py::kw_only(),
             py::arg("key") = py::none())
        .def(
            "plan",
            [](OpenDevice& open, uint32_t copies, uint32_t timestamps) {
                return std::make_shared<Plan>(open.device, copies, timestamps);
            },
            py::arg("copies") = 3, py::arg("timestamps") = 0)
        .def("replay", &replay, py::arg("plan"), py::arg("arguments"))
        .def(
            "submit", [](OpenDevice& open, PlanPointer plan) { return submit(open, {std::move(plan)}); },
            py::arg("plan").none(false))
        .def("submit", &submit, py::arg("plans"))
        .def(
            "done", [](OpenDevice& open, uint64_t ticket) { return open.device->timeline.is_done(ticket); },
            py::arg("ticket"))
        .def(
            "wait",
            [](OpenDevice& open, uint64_t ticket, std::optional<double> timeout) {
                return wait(*open.device, ticket, timeout);
            },
            py::arg("ticket"), py::arg("timeout") = py::none())
        .def(
            "load_cache",
            [](OpenDevice& open, const std::string& path) { return open.device->pipelines.load_cache(path); },
            py::arg("path"))
        .def(
            "save_cache",
            [](OpenDevice& open, const std::string& path) { return open.device->pipelines.save_cache(path); },
            py::arg("path"))
        .def(
            "close", [](OpenDevice& open) { open.device->close(); }, py::call_guard<py::gil_scoped_release>())
        .def("_simulate_device_lost", [](OpenDevice& open) { open.device->base.lose_next_submission = true; });
}
} // namespace vkgrad
