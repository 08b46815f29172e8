// Exponentials, logarithms and powers in double precision. The tails are in polynomials.glsl.

// @function exp_scaled_double needs exp_tail_double scale
// e^(x + low) 2^shift for a `low` far below x: 2^n e^r with r = x - n ln 2, where ln 2 is in two parts, the first short
// enough for an exact product (Cody & Waite, "Software Manual for the Elementary Functions", 1980).
precise double exp_scaled_double(double x, double low, int shift) {
    x = clamp(x, -748.0lf, 712.0lf);
    precise double n = roundEven(x * 1.4426950408889634lf);
    precise double high = x - n * 0.6931471804855391lf;
    precise double rest = low - n * 7.440617110012397e-11lf;
    precise double r = high + rest;
    precise double lost = (high - r) + rest;
    precise double small = r * r * exp_tail_double(r) + lost;
    return scale(1.0lf + (r + small), int(n) + shift);
}

// @function exp_double needs exp_scaled_double is_nan
precise double exp_double(double x) { return is_nan(x) ? x : exp_scaled_double(x, 0.0lf, 0); }

// @function exp2_double needs exp_tail_double scale is_nan
precise double exp2_double(double x) {
    if (is_nan(x)) return x;
    x = clamp(x, -1080.0lf, 1025.0lf);
    precise double n = roundEven(x);
    precise double r = (x - n) * 0.6931471805599453lf;
    return scale(1.0lf + (r + r * r * exp_tail_double(r)), int(n));
}

// @function expm1_double needs exp_double exp_tail_double scale is_nan
precise double expm1_double(double x) {
    if (is_nan(x) || x > 40.0lf) return exp_double(x);
    x = max(x, -40.0lf);
    precise double n = roundEven(x * 1.4426950408889634lf);
    if (n == 0.0lf) return x == 0.0lf ? x : x + x * x * exp_tail_double(x);
    precise double high = x - n * 0.6931471804855391lf;
    precise double rest = n * 7.440617110012397e-11lf;
    precise double r = high - rest;
    precise double small = r * r * exp_tail_double(r) + ((high - r) - rest);
    precise double power = scale(1.0lf, int(n));
    return power * (r + small) + (power - 1.0lf);
}

// @function split_mantissa_double
// A positive finite x as m 2^n with sqrt(1/2) <= m < sqrt(2).
precise double split_mantissa_double(double x, out double n) {
    n = 0.0lf;
    if (x < 2.2250738585072014e-308lf) { x *= 18014398509481984.0lf; n = -54.0lf; }
    uvec2 w = unpackDouble2x32(x);
    int e = int(w.y - 0x3fe6a09eu) >> 20;
    n += double(e);
    return packDouble2x32(uvec2(w.x, w.y - (uint(e) << 20)));
}

// @function log_near_one_double needs log_tail_double
// log(1 + f) for sqrt(1/2) <= 1 + f <= sqrt(2), written so that the leading term f is exact.
precise double log_near_one_double(double f) {
    precise double s = f / (2.0lf + f);
    precise double z = s * s;
    precise double square = 0.5lf * f * f;
    return f - (square - s * (square + z * log_tail_double(z)));
}

// @function log_special_double needs inf_double nan_double is_nan
// What every logarithm gives where x is not positive and finite.
precise double log_special_double(double x) {
    if (is_nan(x) || x > 0.0lf) return x;
    return x == 0.0lf ? -inf_double() : nan_double();
}

// @function log_double needs log_near_one_double split_mantissa_double log_special_double positive_finite_double
precise double log_double(double x) {
    if (!positive_finite_double(x)) return log_special_double(x);
    double n;
    precise double f = split_mantissa_double(x, n) - 1.0lf;
    return n * 0.6931471804855391lf + (log_near_one_double(f) + n * 7.440617110012397e-11lf);
}

// @function log2_double needs log_near_one_double split_mantissa_double log_special_double positive_finite_double
precise double log2_double(double x) {
    if (!positive_finite_double(x)) return log_special_double(x);
    double n;
    precise double f = split_mantissa_double(x, n) - 1.0lf;
    precise double near = log_near_one_double(f);
    return n + (near * 1.4426950408889634lf + near * 2.0355273740931033e-17lf);
}

// @function log10_double needs log_near_one_double split_mantissa_double log_special_double positive_finite_double
precise double log10_double(double x) {
    if (!positive_finite_double(x)) return log_special_double(x);
    double n;
    precise double f = split_mantissa_double(x, n) - 1.0lf;
    return n * 0.30102999560767785lf + (log_near_one_double(f) * 0.4342944819032518lf + n * 5.630334806675098e-11lf);
}

// @function log1p_double needs log_double log_near_one_double is_nan
// Near 0 directly; elsewhere log(u) with u = 1 + x rounded, and what the rounding lost (Goldberg 1991, theorem 4).
precise double log1p_double(double x) {
    if (x > -0.29lf && x < 0.41lf) return log_near_one_double(x);
    precise double u = 1.0lf + x;
    if (is_nan(x) || x > 1e18lf || u <= 0.0lf) return log_double(u);
    precise double lost = x > 1.0lf ? 1.0lf - (u - x) : x - (u - 1.0lf);
    return log_double(u) + lost / u;
}

// @function log_pair_double needs split_mantissa_double log_far_tail_double two_sum ordered_sum two_product
// log x for a positive finite x to about 2^-66 of itself: 2 atanh(s) with s = f / (2 + f). The first two terms of the
// series and n ln 2 are added up in two parts.
precise dvec2 log_pair_double(double x) {
    double n;
    precise double f = split_mantissa_double(x, n) - 1.0lf;
    precise dvec2 t = two_sum(2.0lf, f);
    precise double s = f / t.x;
    precise dvec2 product = two_product(s, t.x);
    precise double s_low = (((f - product.x) - product.y) - s * t.y) / t.x;
    precise dvec2 z = two_product(s, s);
    z.y += 2.0lf * s * s_low;
    // u = atanh(s) / s - 1
    precise dvec2 u = two_product(z.x, 0.3333333333333333lf);
    u.y += z.y * 0.3333333333333333lf + z.x * 1.850371707708594e-17lf + z.x * z.x * log_far_tail_double(z.x);
    u = ordered_sum(u.x, u.y);
    precise dvec2 v = two_product(s, u.x);
    v.y += s * u.y + s_low * u.x + s_low;
    precise dvec2 w = ordered_sum(s, v.x);
    w.y += v.y;
    precise dvec2 whole = two_sum(n * 0.6931471804855391lf, 2.0lf * w.x);
    whole.y += 2.0lf * w.y + n * 7.440617110012397e-11lf;
    return ordered_sum(whole.x, whole.y);
}

// @function pow_positive_double needs log_pair_double exp_scaled_double two_product
// x^y for finite x > 0 as e^(y log x) with the exponent in two parts: its relative error is magnified by up to 745.
precise double pow_positive_double(double x, double y) {
    precise dvec2 l = log_pair_double(x);
    precise double exponent = l.x * y;
    if (!(abs(exponent) < 800.0lf)) return exp_scaled_double(exponent, 0.0lf, 0);
    precise dvec2 product = two_product(l.x, y);
    product.y += l.y * y;
    return exp_scaled_double(product.x, product.y, 0);
}

// @function pow_double needs pow_positive_double negative_double is_nan is_inf inf_double nan_double
// C's and NumPy's pow, with all its special cases: anything^0 = 1, 1^anything = 1, a negative base to whole powers.
precise double pow_double(double x, double y) {
    if (y == 0.0lf || x == 1.0lf) return 1.0lf;
    if (is_nan(x)) return x;
    if (is_nan(y)) return y;
    double distance = abs(x);
    if (is_inf(y)) return distance == 1.0lf ? 1.0lf : (distance > 1.0lf) == (y > 0.0lf) ? inf_double() : 0.0lf;
    bool whole = floor(y) == y;
    bool odd = whole && 2.0lf * floor(0.5lf * y) != y;
    bool negative = negative_double(x);
    double value;
    if (x == 0.0lf || is_inf(x)) value = (x == 0.0lf) == (y > 0.0lf) ? 0.0lf : inf_double();
    else if (negative && !whole) return nan_double();
    else value = pow_positive_double(distance, y);
    return negative && odd ? -value : value;
}

// @function cbrt_double needs positive_finite_double with_sign_double scale
// A third of the exponent as a first guess (Kahan), three steps of Halley's method, and one of Newton's, whose quotient
// alone is rounded.
precise double cbrt_double(double x) {
    double a = abs(x);
    if (!positive_finite_double(a)) return x;
    int shift = 0;
    if (a < 1e-290lf) { a = scale(a, 120); shift = -40; }
    if (a > 1e290lf) { a = scale(a, -120); shift = 40; }
    precise double t = packDouble2x32(uvec2(0u, unpackDouble2x32(a).y / 3u + 715094229u));
    for (int turn = 0; turn < 3; ++turn) {
        precise double c = t * t * t;
        t *= (c + a + a) / (c + c + a);
    }
    t = t - (t - a / (t * t)) * 0.3333333333333333lf;
    return with_sign_double(scale(t, shift), x);
}

// @function sinh_double needs sinh_tail_double exp_scaled_double with_sign_double is_nan
// Half of e^|x| is computed as such, so that only the result overflows.
precise double sinh_double(double x) {
    double a = abs(x);
    if (is_nan(x)) return x;
    if (a < 1.0lf) return x == 0.0lf ? x : x + x * (x * x) * sinh_tail_double(x * x);
    precise double e = exp_scaled_double(a, 0.0lf, -1);
    return with_sign_double(e - 0.25lf / e, x);
}

// @function cosh_double needs exp_scaled_double is_nan
precise double cosh_double(double x) {
    if (is_nan(x)) return x;
    precise double e = exp_scaled_double(abs(x), 0.0lf, -1);
    return e + 0.25lf / e;
}

// @function tanh_double needs expm1_double with_sign_double is_nan
precise double tanh_double(double x) {
    if (is_nan(x) || x == 0.0lf) return x;
    double a = min(abs(x), 25.0lf);
    precise double t = expm1_double(2.0lf * a);
    return with_sign_double(a < 1.0lf ? t / (t + 2.0lf) : 1.0lf - 2.0lf / (t + 2.0lf), x);
}

// @function asinh_double needs log1p_double log_double with_sign_double is_nan
// log1p(a + a^2 / (1 + sqrt(1 + a^2))); for large a log(2a).
precise double asinh_double(double x) {
    if (is_nan(x)) return x;
    precise double a = abs(x), value;
    if (a > 1e9lf) value = log_double(a) + 0.6931471805599453lf;
    else value = log1p_double(a + a * a / (1.0lf + sqrt(1.0lf + a * a)));
    return with_sign_double(value, x);
}

// @function acosh_double needs log1p_double log_double nan_double
precise double acosh_double(double x) {
    if (x > 1e9lf) return log_double(x) + 0.6931471805599453lf;
    precise double t = x - 1.0lf;
    return t < 0.0lf ? nan_double() : log1p_double(t + sqrt(2.0lf * t + t * t));
}

// @function atanh_double needs log1p_double with_sign_double nan_double is_nan
precise double atanh_double(double x) {
    precise double a = abs(x);
    if (is_nan(x)) return x;
    if (a > 1.0lf) return nan_double();
    precise double u = 2.0lf * a / (1.0lf - a);
    if (a < 0.5lf) u = 2.0lf * a + 2.0lf * a * a / (1.0lf - a);
    return with_sign_double(0.5lf * log1p_double(u), x);
}

// @function sigmoid_double needs exp_double
// By the exponential that does not overflow, so that small results keep their digits.
precise double sigmoid_double(double x) {
    precise double e = exp_double(-abs(x));
    return (x < 0.0lf ? e : 1.0lf) / (1.0lf + e);
}

// @function softplus_double needs exp_double log1p_double nan_max
precise double softplus_double(double x) { return nan_max(x, 0.0lf) + log1p_double(exp_double(-abs(x))); }
