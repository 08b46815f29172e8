// Plan, as Python sees it.
#include "bindings.hpp"

namespace vkgrad {
// A Buffer, or (Buffer, offset, nbytes) for a part of one.
static BufferRange buffer_range(const py::handle& item) {
    if (py::isinstance<Buffer>(item)) {
        auto buffer = item.cast<std::shared_ptr<Buffer>>();
        const VkDeviceSize nbytes = buffer->nbytes();
        return {std::move(buffer), 0, nbytes};
    }
    if (py::isinstance<py::tuple>(item) && py::len(item) == 3) {
        auto part = item.cast<py::tuple>();
        if (py::isinstance<Buffer>(part[0]))
            return {part[0].cast<std::shared_ptr<Buffer>>(), part[1].cast<uint64_t>(), part[2].cast<uint64_t>()};
    }
    throw py::type_error("dispatch: each of the buffers is a Buffer or a (Buffer, offset, nbytes) tuple");
}

static void dispatch(Plan& plan, const Pipeline& pipeline, const py::sequence& buffers, std::array<uint32_t, 3> groups,
                     const py::object& push) {
    std::vector<BufferRange> ranges;
    ranges.reserve(py::len(buffers));
    for (auto item : buffers) ranges.push_back(buffer_range(item));
    std::string constants = push.is_none() ? std::string() : Bytes(push).copy();
    plan.add_dispatch(std::make_shared<Dispatch>(plan.device(), pipeline, ranges, groups, std::move(constants)));
}

static py::dict counts(const Plan& plan) {
    py::dict out;
    out["dispatches"] = plan.counts().dispatches;
    out["barriers"] = plan.counts().barriers;
    out["copies"] = plan.counts().copies;
    out["fills"] = plan.counts().fills;
    return out;
}

void bind_plan(py::module_& module) {
    using BufferPointer = std::shared_ptr<Buffer>;
    py::class_<Pipeline, std::shared_ptr<Pipeline>>(module, "Pipeline")
        .def_readonly("n_buffers", &Pipeline::n_buffers)
        .def_readonly("create_us", &Pipeline::create_us)
        .def_readonly("cache_hit", &Pipeline::cache_hit)
        .def_property_readonly("local_size", [](const Pipeline& pipeline) {
            auto& size = pipeline.spirv.local_size;
            return py::make_tuple(size[0], size[1], size[2]);
        });
    py::class_<Plan, std::shared_ptr<Plan>>(module, "Plan")
        .def("dispatch", &dispatch, py::arg("pipeline"), py::arg("buffers"), py::arg("groups"),
             py::arg("push") = py::none())
        .def(
            "barrier", [](Plan& plan, const std::string& kind) { plan.add_barrier(Barrier::named(kind)); },
            py::arg("kind") = "compute")
        .def(
            "copy",
            [](Plan& plan, BufferPointer dst, BufferPointer src, uint64_t nbytes, uint64_t to, uint64_t from) {
                plan.add_copy(std::make_shared<Copy>(plan.device(), std::move(dst), std::move(src), nbytes, to, from));
            },
            py::arg("dst").none(false), py::arg("src").none(false), py::arg("nbytes"), py::arg("dst_offset") = 0,
            py::arg("src_offset") = 0)
        .def(
            "fill",
            [](Plan& plan, BufferPointer dst, uint32_t word, uint64_t offset, std::optional<uint64_t> nbytes) {
                const uint64_t rest = dst->nbytes() - std::min<uint64_t>(offset, dst->nbytes());
                plan.add_fill(
                    std::make_shared<Fill>(plan.device(), std::move(dst), word, offset, nbytes.value_or(rest)));
            },
            py::arg("dst").none(false), py::arg("word"), py::arg("offset") = 0, py::arg("nbytes") = py::none())
        .def("timestamp", &Plan::add_timestamp)
        .def("timestamps", &Plan::timestamps_ns)
        .def("finish",
             [](std::shared_ptr<Plan> plan) {
                 py::gil_scoped_release nogil;
                 plan->finish();
                 return plan;
             })
        .def_property_readonly("counts", &counts)
        .def_property_readonly("copies_recorded", [](const Plan& plan) { return plan.recordings.size(); });
}
} // namespace vkgrad
