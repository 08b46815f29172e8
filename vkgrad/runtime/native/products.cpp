#include "products.hpp"
#include "crew.hpp"
#include <algorithm>

namespace vkgrad {
namespace {
constexpr int row_major = 101, as_it_is = 111, turned = 112; // CBLAS's numbers
constexpr int64_t worth = 1 << 19;                           // multiplications that another thread is worth
constexpr int64_t unit = 16;                                 // rows or columns that BLAS computes side by side

struct Matrix {
    int order;
    int64_t lead, row, column; // elements from one row to the next as BLAS counts, and in truth
};

bool describe(const Stack& stack, Matrix& made) {
    const size_t rank = stack.extents.size();
    const int64_t rows = stack.extents[rank - 2], columns = stack.extents[rank - 1];
    const int64_t row = stack.strides[rank - 2], column = stack.strides[rank - 1];
    made.row = row, made.column = column;
    if ((columns == 1 || column == 1) && (rows == 1 || row >= columns))
        made.order = as_it_is, made.lead = rows == 1 ? std::max<int64_t>(columns, 1) : row;
    else if ((rows == 1 || row == 1) && (columns == 1 || column >= rows))
        made.order = turned, made.lead = columns == 1 ? std::max<int64_t>(rows, 1) : column;
    else
        return false;
    return true;
}

// Where matrix `number` of the stack begins.
float* start(const Stack& stack, const std::vector<int64_t>& extents, int64_t number) {
    float* at = stack.data;
    for (size_t axis = extents.size() - 2; axis-- > 0; number /= extents[axis])
        if (stack.extents[axis] > 1) at += number % extents[axis] * stack.strides[axis];
    return at;
}
} // namespace

bool multiply(Gemm gemm, const Stack& left, const Stack& right, const Stack& out, unsigned threads) {
    const size_t rank = out.extents.size();
    Matrix a, b, c;
    if (left.extents.size() != rank || right.extents.size() != rank) return false;
    if (!describe(left, a) || !describe(right, b) || !describe(out, c) || c.order != as_it_is) return false;
    const int64_t m = out.extents[rank - 2], n = out.extents[rank - 1], k = left.extents[rank - 1];
    int64_t count = 1;
    for (size_t axis = 0; axis + 2 < rank; axis++) count *= out.extents[axis];
    if (!count || !m || !n || !k) return false;

    // As many matrices as threads are shared out one by one, fewer by parts of their longer side.
    const int64_t wanted = std::min<int64_t>(threads, count * m * n * k / worth);
    const bool by_rows = m >= n;
    const int64_t side = by_rows ? m : n, cut = count >= wanted || wanted < 2 ? 1 : wanted;
    const int64_t length = (side + cut * unit - 1) / (cut * unit) * unit, pieces = (side + length - 1) / length;
    SpinningCrew::get().share(count * pieces, wanted < 2 ? 1 : threads, [&](int64_t part) {
        const int64_t number = part / pieces, first = part % pieces * length, size = std::min(length, side - first);
        const float* x = start(left, out.extents, number);
        const float* y = start(right, out.extents, number);
        float* z = start(out, out.extents, number);
        if (by_rows)
            x += first * a.row, z += first * c.row;
        else
            y += first * b.column, z += first;
        gemm(row_major, a.order, b.order, by_rows ? size : m, by_rows ? n : size, k, 1, x, a.lead, y, b.lead, 0, z, c.lead);
    });
    return true;
}
} // namespace vkgrad
