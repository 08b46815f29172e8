// Products of matrices by a BLAS that is there already, shared out to threads.
#pragma once
#include <cstdint>
#include <vector>

namespace vkgrad {
// cblas_sgemm with 64-bit integers.
using Gemm = void (*)(int order, int left_turned, int right_turned, int64_t m, int64_t n, int64_t k, float factor,
                      const float* left, int64_t left_lead, const float* right, int64_t right_lead, float addend, float* out,
                      int64_t out_lead);

// A stack of matrices: extents and strides in elements, the last two of them rows and columns.
struct Stack {
    float* data;
    std::vector<int64_t> extents, strides;
};

// out = left @ right, a matrix at a time, or one matrix in parts; every part by one thread, so BLAS must use no more. The
// axes before the last two are those of `out`; where an operand has extent 1, it is repeated. False, with nothing done, if
// BLAS cannot read a matrix where it is.
bool multiply(Gemm gemm, const Stack& left, const Stack& right, const Stack& out, unsigned threads);
} // namespace vkgrad
