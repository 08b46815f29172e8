// Exponentials, logarithms and powers in single precision.
// Polynomials here and in the other float_ files are minimax fits made for them; each comment says of what, where, and
// the error before rounding to single precision.

// @function exp_tail_float
// (e^r - 1 - r) / r^2 for |r| <= ln(2) / 2; error 3e-10
precise float exp_tail_float(float r) {
    return 0.5 + r * (0.1666666682 + r * (0.0416663419 + r * (0.008333271805 + r * (0.001394205515 + r * 0.0001991494164))));
}

// @function exp_scaled_float needs exp_tail_float scale
// e^(x + low) 2^shift for a `low` far below x: 2^n e^r with r = x - n ln 2; ln 2 in two parts, the first short enough
// for an exact product (Cody & Waite, "Software Manual for the Elementary Functions", 1980).
precise float exp_scaled_float(float x, float low, int shift) {
    x = clamp(x, -106.0, 91.0);
    precise float n = roundEven(x * 1.44269504);
    precise float high = x - n * 0.693359375;
    precise float rest = low + n * 2.12194440e-4;
    precise float r = high + rest;
    precise float lost = (high - r) + rest;
    precise float small = r * r * exp_tail_float(r) + lost;
    return scale(1.0 + (r + small), int(n) + shift);
}

// @function exp_float needs exp_scaled_float is_nan
precise float exp_float(float x) { return is_nan(x) ? x : exp_scaled_float(x, 0.0, 0); }

// @function expm1_float needs exp_float exp_tail_float scale is_nan
precise float expm1_float(float x) {
    if (is_nan(x) || x > 20.0) return exp_float(x);
    x = max(x, -20.0);
    float n = roundEven(x * 1.44269504);
    if (n == 0.0) return x == 0.0 ? x : x + x * x * exp_tail_float(x);
    float r = (x - n * 0.693359375) + n * 2.12194440e-4;
    float power = scale(1.0, int(n));
    return power * (r + r * r * exp_tail_float(r)) + (power - 1.0);
}

// @function exp2_float needs exp_tail_float scale is_nan
precise float exp2_float(float x) {
    if (is_nan(x)) return x;
    x = clamp(x, -150.0, 129.0);
    float n = roundEven(x);
    float r = (x - n) * 0.693147181;
    return scale(1.0 + (r + r * r * exp_tail_float(r)), int(n));
}

// @function log_tail_float
// (log(1 + f) - 2s) / s^3 with s = f / (2 + f), z = s^2, for sqrt(1/2) <= 1 + f <= sqrt(2); error 1e-11
precise float log_tail_float(float z) {
    return 0.6666666556 + z * (0.4000035611 + z * (0.285358954 + z * 0.2361038529));
}

// @function log_near_one_float needs log_tail_float
// log(1 + f) for sqrt(1/2) <= 1 + f <= sqrt(2), written so that the leading term f is exact.
precise float log_near_one_float(float f) {
    float s = f / (2.0 + f);
    float z = s * s;
    float square = 0.5 * f * f;
    return f - (square - s * (square + z * log_tail_float(z)));
}

// @function split_mantissa_float
// A positive finite x as m * 2^n with sqrt(1/2) <= m < sqrt(2). Denormals by their bits, for a device may take them for 0.
precise float split_mantissa_float(float x, out float n) {
    n = 0.0;
    if (floatBitsToUint(x) < 0x00800000u) { x = float(floatBitsToUint(x)); n = -149.0; }
    uint bits = floatBitsToUint(x);
    int e = int(bits - 0x3f3504f3u) >> 23;
    n += float(e);
    return uintBitsToFloat(bits - (uint(e) << 23));
}

// @function log_special_float needs inf_float nan_float is_nan
// What every logarithm gives where x is not positive and finite.
precise float log_special_float(float x) {
    if (is_nan(x) || x > 0.0) return x;
    return x == 0.0 ? -inf_float() : nan_float();
}

// @function positive_finite_float
bool positive_finite_float(float x) { return floatBitsToUint(x) - 1u < 0x7f7fffffu; }

// @function log_float needs log_near_one_float split_mantissa_float log_special_float positive_finite_float
precise float log_float(float x) {
    if (!positive_finite_float(x)) return log_special_float(x);
    float n;
    float f = split_mantissa_float(x, n) - 1.0;
    return n * 0.693359375 + (log_near_one_float(f) - n * 2.12194440e-4);
}

// @function log2_float needs log_near_one_float split_mantissa_float log_special_float positive_finite_float
precise float log2_float(float x) {
    if (!positive_finite_float(x)) return log_special_float(x);
    float n;
    float f = split_mantissa_float(x, n) - 1.0;
    return n + log_near_one_float(f) * 1.44269504;
}

// @function log10_float needs log_near_one_float split_mantissa_float log_special_float positive_finite_float
precise float log10_float(float x) {
    if (!positive_finite_float(x)) return log_special_float(x);
    float n;
    float f = split_mantissa_float(x, n) - 1.0;
    return n * 0.301025391 + (log_near_one_float(f) * 0.434294482 + n * 4.60503907e-6);
}

// @function log1p_float needs log_float log_near_one_float is_nan
// Near 0 directly; elsewhere log(u) with u = 1 + x rounded, and what the rounding lost (Goldberg 1991, theorem 4).
precise float log1p_float(float x) {
    if (x > -0.29 && x < 0.41) return log_near_one_float(x);
    float u = 1.0 + x;
    if (is_nan(x) || x > 1e8 || u <= 0.0) return log_float(u);
    return log_float(u) + (x > 1.0 ? 1.0 - (u - x) : x - (u - 1.0)) / u;
}

// @function log_pair_float needs split_mantissa_float two_sum_float two_product_float
// log x for a positive finite x in two parts, to about 2^-33 of itself: 2 atanh(s) with s = f / (2 + f); the first two
// terms of the series and n ln 2 are added up in two parts. Error of the tail, which is s^5 (0.2 + ...): 1e-7.
precise vec2 log_pair_float(float x) {
    float n;
    precise float f = split_mantissa_float(x, n) - 1.0;
    precise vec2 t = two_sum_float(2.0, f);
    precise float s = f / t.x;
    precise vec2 product = two_product_float(s, t.x);
    precise float s_low = (((f - product.x) - product.y) - s * t.y) / t.x;
    precise vec2 z = two_product_float(s, s);
    z.y += 2.0 * s * s_low;
    // u = atanh(s) / s - 1
    precise vec2 u = two_product_float(z.x, 0.333333343);
    u.y += z.y * 0.333333343 - z.x * 9.934107e-9 + z.x * z.x * (0.2000000754 + z.x * (0.1428111493 + z.x * 0.1152426055));
    u = two_sum_float(u.x, u.y);
    precise vec2 v = two_product_float(s, u.x);
    v.y += s * u.y + s_low * u.x + s_low;
    precise vec2 w = two_sum_float(s, v.x);
    w.y += v.y;
    precise vec2 whole = two_sum_float(n * 0.693359375, 2.0 * w.x);
    whole.y += 2.0 * w.y - n * 2.12194440e-4;
    return two_sum_float(whole.x, whole.y);
}

// @function pow_positive_float needs log_pair_float two_product_float exp_scaled_float
// x^y for finite x > 0 as e^(y log x) with the exponent in two parts: its relative error is magnified by up to 104.
precise float pow_positive_float(float x, float y) {
    precise vec2 l = log_pair_float(x);
    precise float exponent = l.x * y;
    if (!(abs(exponent) < 105.0)) return exp_scaled_float(exponent, 0.0, 0);
    precise vec2 product = two_product_float(l.x, y);
    product.y += l.y * y;
    return exp_scaled_float(product.x, product.y, 0);
}

// @function pow_float needs pow_positive_float is_nan is_inf inf_float nan_float
// C's and NumPy's pow, with all its special cases: anything^0 = 1, 1^anything = 1, a negative base to whole powers.
precise float pow_float(float x, float y) {
    if (y == 0.0 || x == 1.0) return 1.0;
    if (is_nan(x)) return x;
    if (is_nan(y)) return y;
    float distance = abs(x);
    if (is_inf(y)) return distance == 1.0 ? 1.0 : (distance > 1.0) == (y > 0.0) ? inf_float() : 0.0;
    bool whole = floor(y) == y;
    bool odd = whole && abs(y) < 16777216.0 && (int(y) & 1) != 0;
    bool negative = floatBitsToInt(x) < 0;
    float value;
    if (x == 0.0 || is_inf(x)) value = (x == 0.0) == (y > 0.0) ? 0.0 : inf_float();
    else if (negative && !whole) return nan_float();
    else value = pow_positive_float(distance, y);
    return negative && odd ? -value : value;
}

// @function cbrt_float needs positive_finite_float scale
// A third of the exponent as a first guess (Kahan), then two steps of Halley's method.
precise float cbrt_float(float x) {
    float a = abs(x);
    if (!positive_finite_float(a)) return x;
    int shift = 0;
    if (floatBitsToUint(a) < 0x00800000u) { a = 2.0 * float(floatBitsToUint(a)); shift = -50; }
    if (a < 1e-30) { a *= 1073741824.0; shift = -10; }
    if (a > 1e30) { a *= 9.31322575e-10; shift = 10; }  // 2^-30
    float t = uintBitsToFloat(floatBitsToUint(a) / 3u + 709921077u);
    for (int turn = 0; turn < 2; ++turn) {
        float c = t * t * t;
        t *= (c + a + a) / (c + c + a);
    }
    t = t - (t - a / (t * t)) * 0.333333333;
    t = scale(t, shift);
    return floatBitsToInt(x) < 0 ? -t : t;
}

// @function sinh_float needs exp_scaled_float is_nan
// Half of e^|x| is computed as such, so that only the result overflows.
precise float sinh_float(float x) {
    if (is_nan(x)) return x;
    float a = abs(x);
    if (a < 1.0) {
        precise float z = x * x;
        return x + x * z * (0.1666666648 + z * (0.00833335112 + z * (0.0001983596199 + z * 2.818055605e-6)));
    }
    precise float e = exp_scaled_float(a, 0.0, -1);
    precise float value = e - 0.25 / e;
    return x < 0.0 ? -value : value;
}

// @function cosh_float needs exp_scaled_float is_nan
precise float cosh_float(float x) {
    if (is_nan(x)) return x;
    precise float e = exp_scaled_float(abs(x), 0.0, -1);
    return e + 0.25 / e;
}

// @function tanh_float needs exp_float
// The built-in one overflows to NaN for large x on some drivers.
precise float tanh_float(float x) {
    float a = abs(x);
    if (!(a > 0.625)) {
        float z = x * x;
        return x == 0.0 ? x : x + x * z * (-0.3333333019 + z * (0.1333318048 + z * (-0.05394339449
            + z * (0.02168162059 + z * (-0.00812895742 + z * 0.002097689274)))));
    }
    float value = 1.0 - 2.0 / (exp_float(2.0 * min(a, 20.0)) + 1.0);
    return x < 0.0 ? -value : value;
}

// @function asinh_float needs log1p_float log_float
// log1p(a + a^2 / (1 + sqrt(1 + a^2))); for large a log(2a).
precise float asinh_float(float x) {
    float a = abs(x), value;
    if (a > 1e8) value = log_float(a) + 0.693147181;
    else value = log1p_float(a + a * a / (1.0 + sqrt(1.0 + a * a)));
    return floatBitsToInt(x) < 0 ? -value : value;
}

// @function acosh_float needs log1p_float log_float nan_float
precise float acosh_float(float x) {
    if (x > 1e8) return log_float(x) + 0.693147181;
    float t = x - 1.0;
    return t < 0.0 ? nan_float() : log1p_float(t + sqrt(2.0 * t + t * t));
}

// @function atanh_float needs log1p_float nan_float
precise float atanh_float(float x) {
    float a = abs(x);
    if (a > 1.0) return nan_float();
    if (!(a > 0.5)) {
        float z = x * x;
        return x + x * z * (0.3333333725 + z * (0.1999962776 + z * (0.1429762044 + z * (0.1093213836
            + z * (0.1050569517 + z * (0.0175771956 + z * 0.1843606004))))));
    }
    float value = 0.5 * log1p_float(2.0 * a / (1.0 - a));
    return x < 0.0 ? -value : value;
}

// @function sigmoid_float needs exp_float
// By the exponential that does not overflow, so that small results keep their digits.
precise float sigmoid_float(float x) {
    float e = exp_float(-abs(x));
    return (x < 0.0 ? e : 1.0) / (1.0 + e);
}

// @function softplus_float needs exp_float log1p_float nan_max
precise float softplus_float(float x) { return nan_max(x, 0.0) + log1p_float(exp_float(-abs(x))); }
