// Nest and products, as Python sees them.
#include "bindings.hpp"
#include "crew.hpp"
#include "nest.hpp"
#include "products.hpp"
#include <pybind11/numpy.h>

namespace vkgrad {
namespace {
using Integers = std::vector<int64_t>;
using Limits = std::vector<std::tuple<Integers, Integers, int64_t>>;

Loop loop_of(const py::handle& name) {
    const Loop loop = find_loop(name.cast<std::string>());
    if (!loop) throw std::invalid_argument("no loop is called " + name.cast<std::string>());
    return loop;
}

Instruction instruction(const py::tuple& given) {
    const auto kind = given[0].cast<std::string>();
    Instruction made{};
    if (kind == "load") {
        made.kind = Instruction::load;
        made.access = {given[1].cast<int>(), given[2].cast<bool>(), given[3].cast<Integers>(), given[4].cast<Integers>(),
                       {}, given[6].cast<uint32_t>()};
        for (auto& [coefficients, constants, bound] : given[5].cast<Limits>())
            made.access.limits.push_back({coefficients, constants, bound});
    } else if (kind == "count") {
        made.kind = Instruction::count;
        made.access.strides = given[1].cast<Integers>();
        made.access.offsets = given[2].cast<Integers>();
    } else if (kind == "constant") {
        made.kind = Instruction::constant;
        made.words = given[1].cast<std::vector<uint32_t>>();
    } else if (kind == "compute") {
        made.kind = Instruction::compute;
        made.loop = loop_of(given[1]);
        made.operands = given[2].cast<std::vector<int>>();
    } else {
        made.kind = Instruction::reduce;
        made.loop = loop_of(given[1]);
        made.operands = given[2].cast<std::vector<int>>();
        made.from_zero = given[3].cast<bool>();
    }
    return made;
}

Nest make(const Integers& extents, int64_t terms, const py::list& code, const py::list& stores) {
    std::vector<Instruction> instructions;
    for (const auto& given : code) instructions.push_back(instruction(given.cast<py::tuple>()));
    std::vector<Store> written;
    for (const auto& item : stores) {
        const auto given = item.cast<py::tuple>();
        const Access access{given[0].cast<int>(), given[1].cast<bool>(), given[2].cast<Integers>(),
                            {given[3].cast<int64_t>()}, {}, 0};
        written.push_back({access, given[4].cast<int>()});
    }
    return Nest(extents, terms, std::move(instructions), std::move(written));
}

void run(const Nest& nest, const py::sequence& arrays, unsigned threads) {
    std::vector<void*> slots;
    for (const auto& array : arrays) slots.push_back(const_cast<void*>(py::reinterpret_borrow<py::array>(array).data()));
    py::gil_scoped_release nogil;
    SpinningCrew::get().share(nest.blocks(), threads, [&](int64_t block) { nest.run(slots.data(), block); });
}

Stack stack(const py::array& array) {
    Stack made{static_cast<float*>(const_cast<void*>(array.data())), {}, {}};
    for (py::ssize_t axis = 0; axis < array.ndim(); axis++) {
        made.extents.push_back(array.shape(axis));
        made.strides.push_back(array.strides(axis) / py::ssize_t(sizeof(float)));
    }
    return made;
}

bool multiply_arrays(uintptr_t gemm, const py::array& left, const py::array& right, const py::array& out, unsigned threads) {
    const Stack x = stack(left), y = stack(right), z = stack(out);
    py::gil_scoped_release nogil;
    return multiply(reinterpret_cast<Gemm>(gemm), x, y, z, threads);
}
} // namespace

void bind_nest(py::module_& module) {
    module.def("has_loop", [](const std::string& name) { return find_loop(name) != nullptr; }, py::arg("name"));
    module.def("multiply", &multiply_arrays, py::arg("gemm"), py::arg("left"), py::arg("right"), py::arg("out"),
               py::arg("threads"));
    py::class_<Nest>(module, "Nest")
        .def(py::init(&make), py::arg("extents"), py::arg("terms"), py::arg("code"), py::arg("stores"))
        .def_property_readonly("blocks", &Nest::blocks)
        .def("run", &run, py::arg("arrays"), py::arg("threads") = 1);
}
} // namespace vkgrad
