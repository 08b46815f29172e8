// What the double-precision functions are built from. They are written for IEEE 754 arithmetic with NoContraction and
// without a fused multiply-add, which Vulkan does not promise to round once. A sum of two doubles that holds about 106
// bits is a dvec2, the larger part first (Dekker, Numerische Mathematik 18, 1971).

// @function inf_double
precise double inf_double() { return packDouble2x32(uvec2(0u, 0x7ff00000u)); }

// @function nan_double
precise double nan_double() { return packDouble2x32(uvec2(0u, 0x7ff80000u)); }

// @function negative_double
// By bits: -0.0 is negative, too.
bool negative_double(double x) { return int(unpackDouble2x32(x).y) < 0; }

// @function with_sign_double
// `a`, which is not negative, with the sign of x.
precise double with_sign_double(double a, double x) {
    uvec2 w = unpackDouble2x32(a);
    return packDouble2x32(uvec2(w.x, w.y | (unpackDouble2x32(x).y & 0x80000000u)));
}

// @function positive_finite_double
bool positive_finite_double(double x) {
    uvec2 w = unpackDouble2x32(x);
    return w.y < 0x7ff00000u && (w.x | w.y) != 0u;
}

// @function high_part_double
// x without its last 27 bits: the 26 that stay make exact products.
precise double high_part_double(double x) {
    uvec2 w = unpackDouble2x32(x);
    return packDouble2x32(uvec2(w.x & 0xf8000000u, w.y));
}

// @function two_sum
// x + y and what its rounding lost (Knuth).
precise dvec2 two_sum(double x, double y) {
    precise double sum = x + y;
    precise double part = sum - x;
    precise double lost = (x - (sum - part)) + (y - part);
    return dvec2(sum, lost);
}

// @function ordered_sum
// The same where |x| >= |y| (Dekker).
precise dvec2 ordered_sum(double x, double y) {
    precise double sum = x + y;
    precise double lost = y - (sum - x);
    return dvec2(sum, lost);
}

// @function two_product needs high_part_double
// x y and what its rounding lost.
precise dvec2 two_product(double x, double y) {
    precise double product = x * y;
    precise double x_high = high_part_double(x), y_high = high_part_double(y);
    precise double x_low = x - x_high, y_low = y - y_high;
    precise double lost = ((x_high * y_high - product) + x_high * y_low + x_low * y_high) + x_low * y_low;
    return dvec2(product, lost);
}
