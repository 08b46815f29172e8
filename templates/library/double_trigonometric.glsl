// Angles in double precision. The tails are in polynomials.glsl.

// @function large_quarter_turns_double needs two_product ordered_sum
// x = n pi/2 + r for 2^20 < |x| < inf by the method of Payne & Hanek (SIGNUM Newsletter 18, 1983): of the bits of 2/pi
// only those 192 are taken that matter, and multiplied in integers; the first two bits of the product are whole quarter
// turns.
precise dvec2 large_quarter_turns_double(double x, out int n) {
    const uint two_over_pi[40] = uint[40](
        0u, 0u, 0xa2f9836eu, 0x4e441529u, 0xfc2757d1u, 0xf534ddc0u, 0xdb629599u, 0x3c439041u, 0xfe5163abu, 0xdebbc561u,
        0xb7246e3au, 0x424dd2e0u, 0x06492eeau, 0x09d1921cu, 0xfe1deb1cu, 0xb129a73eu, 0xe88235f5u, 0x2ebb4484u,
        0xe99c7026u, 0xb45f7e41u, 0x3991d639u, 0x835339f4u, 0x9c845f8bu, 0xbdf9283bu, 0x1ff897ffu, 0xde05980fu,
        0xef2f118bu, 0x5a0a6d1fu, 0x6d367ecfu, 0x27cb09b7u, 0x4f463f66u, 0x9e5fea2du, 0x7527bac7u, 0xebe5f17bu,
        0x3d0739f7u, 0x8a5292eau, 0x6bfb5fb1u, 0x1f8d5d08u, 0x56033046u, 0xfc7b6babu);
    uvec2 w = unpackDouble2x32(abs(x));
    int start = int(w.y >> 20) - 1075 + 62;  // |x| = mantissa 2^(start - 62); bits before `start` add multiples of 4 turns
    int first = start >> 5, shift = start & 31;
    w.y = (w.y & 0x000fffffu) | 0x00100000u;
    uint product[6], next = 0u, after = 0u;
    for (int i = 5; i >= 0; --i) {
        uint part = two_over_pi[first + i];
        if (shift != 0) part = (part << shift) | (two_over_pi[first + i + 1] >> (32 - shift));
        uint low, middle, high, other, carry, carried;
        umulExtended(part, w.x, other, low);
        umulExtended(part, w.y, high, middle);
        middle = uaddCarry(middle, other, carry);
        high += carry;
        product[i] = uaddCarry(next, low, carry);
        next = uaddCarry(after, middle, carried);
        next = uaddCarry(next, carry, carry);
        after = high + carry + carried;
    }
    uint whole = product[0] >> 30;
    bool above = (product[0] & 0x20000000u) != 0u;  // to the nearest quarter turn
    if (above) whole += 1u;
    double word[5];
    for (int i = 0; i < 5; ++i) {
        uint bits = (product[i] << 2) | (product[i + 1] >> 30);
        word[i] = double(above ? ~bits : bits);
    }
    const double step = 2.3283064365386963e-10lf;  // 2^-32
    precise dvec2 turn = ordered_sum(word[0] * step, word[1] * step * step);
    turn.y += (word[2] + (word[3] + word[4] * step) * step) * step * step * step;
    turn = ordered_sum(turn.x, turn.y);
    precise dvec2 r = two_product(turn.x, 1.5707963267948966lf);
    r.y += turn.x * 6.123233995736766e-17lf + turn.y * 1.5707963267948966lf;
    r = ordered_sum(r.x, r.y);
    n = int(x < 0.0lf ? 0u - whole : whole);
    return above == (x < 0.0lf) ? r : -r;
}

// @function quarter_turns_double needs large_quarter_turns_double two_sum is_finite nan_double
// x = n pi/2 + r with |r| <= pi/4 and r in two parts; up to 2^20 by pi/2 in three parts (Cody & Waite 1980).
precise dvec2 quarter_turns_double(double x, out int n) {
    n = 0;
    if (!is_finite(x)) return dvec2(nan_double(), 0.0lf);
    if (abs(x) > 1048576.0lf) return large_quarter_turns_double(x, n);
    precise double k = roundEven(x * 0.6366197723675814lf);
    n = int(k);
    if (n == 0) return dvec2(x, 0.0lf);
    precise double first = x - k * 1.5707963267341256lf;
    precise dvec2 r = two_sum(first, -(k * 6.077100506303966e-11lf));
    r.y -= k * 2.0222662487959506e-21lf;
    return two_sum(r.x, r.y);
}

// @function sin_quarter_double needs sin_tail_double
// sin(r.x + r.y) for |r| <= pi/4. Zero keeps its sign.
precise double sin_quarter_double(dvec2 r) {
    precise double z = r.x * r.x;
    precise double small = r.x * z * sin_tail_double(z) + r.y * (1.0lf - 0.5lf * z);
    return r.x == 0.0lf ? r.x : r.x + small;
}

// @function cos_quarter_double needs cos_tail_double
precise double cos_quarter_double(dvec2 r) {
    precise double z = r.x * r.x;
    precise double half_ = 0.5lf * z;
    precise double head = 1.0lf - half_;
    return head + (((1.0lf - head) - half_) + (z * z * cos_tail_double(z) - r.x * r.y));
}

// @function sin_double needs quarter_turns_double sin_quarter_double cos_quarter_double
precise double sin_double(double x) {
    int n;
    dvec2 r = quarter_turns_double(x, n);
    double value = (n & 1) == 0 ? sin_quarter_double(r) : cos_quarter_double(r);
    return (n & 2) == 0 ? value : -value;
}

// @function cos_double needs quarter_turns_double sin_quarter_double cos_quarter_double
precise double cos_double(double x) {
    int n;
    dvec2 r = quarter_turns_double(x, n);
    double value = (n & 1) == 0 ? cos_quarter_double(r) : sin_quarter_double(r);
    return ((n + 1) & 2) == 0 ? value : -value;
}

// @function tan_double needs quarter_turns_double sin_quarter_double cos_quarter_double
precise double tan_double(double x) {
    int n;
    dvec2 r = quarter_turns_double(x, n);
    precise double s = sin_quarter_double(r), c = cos_quarter_double(r);
    return (n & 1) == 0 ? s / c : -(c / s);
}

// @function asin_small_double needs asin_tail_double
// asin x for |x| <= 1/2
precise double asin_small_double(double x) { return x == 0.0lf ? x : x + x * (x * x) * asin_tail_double(x * x); }

// @function asin_double needs asin_small_double with_sign_double nan_double
// Beyond 1/2: asin x = pi/2 - 2 asin(sqrt((1 - x) / 2)), pi in two parts.
precise double asin_double(double x) {
    double a = abs(x);
    if (!(a > 0.5lf)) return asin_small_double(x);
    if (a > 1.0lf) return nan_double();
    precise double rest = 2.0lf * asin_small_double(sqrt(0.5lf * (1.0lf - a)));
    return with_sign_double(1.5707963267948966lf - (rest - 6.123233995736766e-17lf), x);
}

// @function acos_double needs asin_small_double nan_double
precise double acos_double(double x) {
    if (abs(x) > 1.0lf) return nan_double();
    if (x > 0.5lf) return 2.0lf * asin_small_double(sqrt(0.5lf * (1.0lf - x)));
    if (x < -0.5lf) {
        precise double rest = 2.0lf * asin_small_double(sqrt(0.5lf * (1.0lf + x)));
        return 3.141592653589793lf - (rest - 1.2246467991473532e-16lf);
    }
    return 1.5707963267948966lf - (asin_small_double(x) - 6.123233995736766e-17lf);
}

// @function atan_small_double needs atan_tail_double
// atan x for |x| <= tan(pi/8)
precise double atan_small_double(double x) { return x == 0.0lf ? x : x + x * (x * x) * atan_tail_double(x * x); }

// @function atan_double needs atan_small_double with_sign_double
precise double atan_double(double x) {
    double a = abs(x);
    if (!(a > 0.41421356237309503lf)) return atan_small_double(x);
    precise double value;
    if (a > 2.414213562373095lf) value = 1.5707963267948966lf - (atan_small_double(1.0lf / a) - 6.123233995736766e-17lf);
    else value = 0.7853981633974483lf + (atan_small_double((a - 1.0lf) / (a + 1.0lf)) + 3.061616997868383e-17lf);
    return with_sign_double(value, x);
}

// @function atan2_double needs atan_double negative_double with_sign_double is_inf is_nan
precise double atan2_double(double y, double x) {
    if (is_nan(x) || is_nan(y)) return x + y;
    precise double a = abs(y), c = abs(x), angle;
    if (is_inf(a) && is_inf(c)) angle = 0.7853981633974483lf;
    else if (a == 0.0lf) angle = 0.0lf;
    else angle = a > c ? 1.5707963267948966lf - (atan_double(c / a) - 6.123233995736766e-17lf) : atan_double(a / c);
    if (negative_double(x)) angle = 3.141592653589793lf - (angle - 1.2246467991473532e-16lf);
    return with_sign_double(angle, y);
}
