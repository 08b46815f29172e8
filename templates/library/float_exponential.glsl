// Exponentials, logarithms and powers in single precision.
// Polynomials here and in the other float_ files are minimax fits made for them; each comment says of what, where, and the
// error before rounding to single precision.

// @function exp_tail
// (e^r - 1 - r) / r^2 for |r| <= ln(2) / 2; error 3e-10
precise float exp_tail(float r) {
    return 0.5 + r * (0.1666666682 + r * (0.0416663419 + r * (0.008333271805 + r * (0.001394205515 + r * 0.0001991494164))));
}

// @function exp_float needs exp_tail scale is_nan
// 2^n e^r with r = x - n ln 2; ln 2 in two parts, the first short enough for an exact product (Cody & Waite 1980).
precise float exp_float(float x) {
    if (is_nan(x)) return x;
    x = clamp(x, -104.0, 89.0);
    float n = roundEven(x * 1.44269504);
    float r = (x - n * 0.693359375) + n * 2.12194440e-4;
    return scale(1.0 + (r + r * r * exp_tail(r)), int(n));
}

// @function expm1_float needs exp_float exp_tail scale is_nan
precise float expm1_float(float x) {
    if (is_nan(x) || x > 20.0) return exp_float(x);
    x = max(x, -20.0);
    float n = roundEven(x * 1.44269504);
    if (n == 0.0) return x == 0.0 ? x : x + x * x * exp_tail(x);
    float r = (x - n * 0.693359375) + n * 2.12194440e-4;
    float power = scale(1.0, int(n));
    return power * (r + r * r * exp_tail(r)) + (power - 1.0);
}

// @function exp2_float needs exp_tail scale is_nan
precise float exp2_float(float x) {
    if (is_nan(x)) return x;
    x = clamp(x, -150.0, 129.0);
    float n = roundEven(x);
    float r = (x - n) * 0.693147181;
    return scale(1.0 + (r + r * r * exp_tail(r)), int(n));
}

// @function log_tail
// (log(1 + f) - 2s) / s^3 with s = f / (2 + f), z = s^2, for sqrt(1/2) <= 1 + f <= sqrt(2); error 1e-11
precise float log_tail(float z) {
    return 0.6666666556 + z * (0.4000035611 + z * (0.285358954 + z * 0.2361038529));
}

// @function log_near_one needs log_tail
// log(1 + f) for sqrt(1/2) <= 1 + f <= sqrt(2), written so that the leading term f is exact.
precise float log_near_one(float f) {
    float s = f / (2.0 + f);
    float z = s * s;
    float square = 0.5 * f * f;
    return f - (square - s * (square + z * log_tail(z)));
}

// @function split_mantissa
// A positive finite x as m * 2^n with sqrt(1/2) <= m < sqrt(2).
precise float split_mantissa(float x, out float n) {
    n = 0.0;
    if (x < 1.17549435e-38) { x *= 8388608.0; n = -23.0; }
    uint bits = floatBitsToUint(x);
    int e = int(bits - 0x3f3504f3u) >> 23;
    n += float(e);
    return uintBitsToFloat(bits - (uint(e) << 23));
}

// @function log_special needs inf_float nan_float is_nan
// What every logarithm gives where x is not positive and finite.
precise float log_special(float x) {
    if (is_nan(x) || x > 0.0) return x;
    return x == 0.0 ? -inf_float() : nan_float();
}

// @function positive_finite
bool positive_finite(float x) { return floatBitsToUint(x) - 1u < 0x7f7fffffu; }

// @function log_float needs log_near_one split_mantissa log_special positive_finite
precise float log_float(float x) {
    if (!positive_finite(x)) return log_special(x);
    float n;
    float f = split_mantissa(x, n) - 1.0;
    return n * 0.693359375 + (log_near_one(f) - n * 2.12194440e-4);
}

// @function log2_float needs log_near_one split_mantissa log_special positive_finite
precise float log2_float(float x) {
    if (!positive_finite(x)) return log_special(x);
    float n;
    float f = split_mantissa(x, n) - 1.0;
    return n + log_near_one(f) * 1.44269504;
}

// @function log10_float needs log_near_one split_mantissa log_special positive_finite
precise float log10_float(float x) {
    if (!positive_finite(x)) return log_special(x);
    float n;
    float f = split_mantissa(x, n) - 1.0;
    return n * 0.301025391 + (log_near_one(f) * 0.434294482 + n * 4.60503907e-6);
}

// @function log1p_float needs log_float log_near_one is_nan
// Near 0 directly; elsewhere log(u) with u = 1 + x rounded, and what the rounding lost (Goldberg 1991, theorem 4).
precise float log1p_float(float x) {
    if (x > -0.29 && x < 0.41) return log_near_one(x);
    float u = 1.0 + x;
    if (is_nan(x) || x > 1e8 || u <= 0.0) return log_float(u);
    return log_float(u) + (x > 1.0 ? 1.0 - (u - x) : x - (u - 1.0)) / u;
}

// @function high_part
// x without its last 12 bits: products of two such parts are exact.
precise float high_part(float x) { return uintBitsToFloat(floatBitsToUint(x) & 0xfffff000u); }

// @function pow_positive needs exp2_float split_mantissa log_tail high_part exp_tail scale
// x^y for finite x > 0 as 2^(y log2 x), with log2 x and the product in two parts (Dekker 1971), for one part's relative
// error would be magnified by up to 128.
precise float pow_positive(float x, float y) {
    float n;
    float f = split_mantissa(x, n) - 1.0;
    precise float t = 2.0 + f, s = f / t;
    precise float t_high = high_part(t), t_low = f - (t_high - 2.0), s_high = high_part(s);
    precise float s_low = ((f - s_high * t_high) - s_high * t_low) / t;
    float z = s * s;
    // log(1 + f) = 2 s_high + rest;  log2(e) = 1.44238281 + 3.12230767e-4
    precise float rest = 2.0 * s_low + s * z * log_tail(z);
    precise float first = 2.0 * s_high * 1.44238281;
    precise float second = rest * 1.44269504 + 2.0 * s_high * 3.12230767e-4;
    precise float total = n + first;
    precise float low = (n == 0.0 ? 0.0 : first - (total - n)) + second;
    precise float exponent = total * y;
    if (!(abs(exponent) < 200.0)) return exp2_float(exponent);
    precise float total_high = high_part(total), y_high = high_part(y);
    precise float exact = total_high * y_high;
    precise float small = (total - total_high) * y + total_high * (y - y_high) + low * y;
    float whole = roundEven(exact + small);
    float r = ((exact - whole) + small) * 0.693147181;
    return scale(1.0 + (r + r * r * exp_tail(r)), int(clamp(whole, -200.0, 200.0)));
}

// @function pow_float needs pow_positive is_nan is_inf inf_float nan_float
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
    else value = pow_positive(distance, y);
    return negative && odd ? -value : value;
}

// @function cbrt_float needs positive_finite scale
// A third of the exponent as a first guess (Kahan), then two steps of Halley's method.
precise float cbrt_float(float x) {
    float a = abs(x);
    if (!positive_finite(a)) return x;
    int shift = 0;
    if (a < 1e-30) { a *= 1073741824.0; shift = -10; }
    if (a > 1e30) { a *= 9.31322575e-10; shift = 10; }  // 2^-30
    float t = uintBitsToFloat(floatBitsToUint(a) / 3u + 709921077u);
    for (int turn = 0; turn < 2; ++turn) {
        float c = t * t * t;
        t *= (c + a + a) / (c + c + a);
    }
    t = t - (t - a / (t * t)) * 0.333333333;
    t = scale(t, shift);
    return x < 0.0 ? -t : t;
}

// @function sinh_float needs expm1_float exp_float
// (e + e / (1 + e)) / 2 with e = expm1|x|; the halves of e^|x| are multiplied last, so that only the result overflows.
precise float sinh_float(float x) {
    float a = abs(x), value;
    if (a < 1.0) {
        float z = x * x;
        return x + x * z * (0.1666666648 + z * (0.00833335112 + z * (0.0001983596199 + z * 2.818055605e-6)));
    }
    if (a > 9.0) { float root = exp_float(0.5 * a); value = (0.5 * root) * root; }
    else { float e = expm1_float(a); value = 0.5 * (e + e / (1.0 + e)); }
    return x < 0.0 ? -value : value;
}

// @function cosh_float needs exp_float
precise float cosh_float(float x) {
    float a = abs(x);
    if (a > 9.0) { float root = exp_float(0.5 * a); return (0.5 * root) * root; }
    float e = exp_float(a);
    return 0.5 * e + 0.5 / e;
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
precise float sigmoid_float(float x) { return 1.0 / (1.0 + exp_float(-x)); }

// @function softplus_float needs exp_float log1p_float nan_max
precise float softplus_float(float x) { return nan_max(x, 0.0) + log1p_float(exp_float(-abs(x))); }
