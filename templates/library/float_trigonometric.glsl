// Angles in single precision.

// @function large_quarter_turns_float needs two_sum_float two_product_float
// x = n pi/2 + r for 20000 <= |x| < inf by Payne & Hanek's method (SIGNUM Newsletter 18, 1983): multiply by the bits of
// 2/pi that matter, in integers.
precise vec2 large_quarter_turns_float(float x, out int n) {
    const uint two_over_pi[9] = uint[9](
        0u, 0u, 0xa2f9836eu, 0x4e441529u, 0xfc2757d1u, 0xf534ddc0u, 0xdb629599u, 0x3c439041u, 0xfe5163abu);
    uint w = floatBitsToUint(abs(x));
    int e = int(w >> 23) - 118;  // |x| = mantissa * 2^(e - 32)
    uint mantissa = (w & 0x007fffffu) | 0x00800000u;
    // 128 bits of 2^(e - 32) 2/pi, of which the first 32 are whole; the bits before them only add multiples of 4 turns
    uint part[4];
    for (int i = 0; i < 4; ++i) {
        uint left = two_over_pi[(e >> 5) + i], right = two_over_pi[(e >> 5) + i + 1];
        part[i] = (e & 31) == 0 ? left : (left << (e & 31)) | (right >> (32 - (e & 31)));
    }
    // times the mantissa, from the last word up: whole quarter turns and two words of fraction
    uint high, low, carry, dropped, whole, first, second;
    umulExtended(mantissa, part[3], high, dropped);
    second = high;
    umulExtended(mantissa, part[2], high, low);
    second = uaddCarry(second, low, carry);
    first = high + carry;
    umulExtended(mantissa, part[1], high, low);
    first = uaddCarry(first, low, carry);
    whole = high + carry + mantissa * part[0];
    // to the nearest quarter turn
    bool above = first >= 0x80000000u;
    if (above) {
        whole += 1u;
        first = ~first;
        second = ~second;
    }
    precise vec2 turn = two_sum_float(float(first & 0xffffff00u), float(first & 0xffu) + float(second) * 2.32830644e-10);
    precise vec2 r = two_product_float(turn.x, 3.6572953e-10);  // pi/2 2^-32
    r.y += turn.y * 3.6572953e-10 - turn.x * 1.0177351e-17;
    n = int(x < 0.0 ? 0u - whole : whole);
    return above == (x < 0.0) ? r : -r;
}

// @function quarter_turns_float needs large_quarter_turns_float two_sum_float is_finite nan_float
// x = n pi/2 + r with |r| <= pi/4 and r in two parts; up to 20000 by pi/2 in five parts of ten bits and the rest (Cody
// & Waite, "Software Manual for the Elementary Functions", 1980).
precise vec2 quarter_turns_float(float x, out int n) {
    n = 0;
    if (!is_finite(x)) return vec2(nan_float(), 0.0);
    if (abs(x) >= 20000.0) return large_quarter_turns_float(x, n);
    precise float k = roundEven(x * 0.636619772);
    n = int(k);
    if (n == 0) return vec2(x, 0.0);
    precise float first = x - k * 1.5703125;
    precise vec2 r = two_sum_float(first, -(k * 4.83512878e-4));
    r = two_sum_float(r.x, r.y - k * 3.13855708e-7);
    r.y = (r.y - k * 6.07087713e-11) - k * 6.22337197e-14;
    return two_sum_float(r.x, r.y);
}

// @function sin_quarter_float
// sin(r.x + r.y) for |r| <= pi/4; error 5e-12. Zero keeps its sign, here and below.
precise float sin_quarter_float(vec2 r) {
    precise float z = r.x * r.x;
    precise float small = r.x * z * (-0.1666666664 + z * (0.008333329145 + z * (-0.0001983925709 + z * 2.717569584e-6)));
    return r.x == 0.0 ? r.x : r.x + (small + r.y * (1.0 - 0.5 * z));
}

// @function cos_quarter_float
// cos(r.x + r.y) for |r| <= pi/4; error 1e-10
precise float cos_quarter_float(vec2 r) {
    precise float z = r.x * r.x;
    precise float half_ = 0.5 * z;
    precise float head = 1.0 - half_;
    precise float tail = z * z * (0.0416666457 + z * (-0.001388730813 + z * 2.443143237e-5));
    return head + (((1.0 - head) - half_) + (tail - r.x * r.y));
}

// @function sin_float needs quarter_turns_float sin_quarter_float cos_quarter_float
precise float sin_float(float x) {
    int n;
    vec2 r = quarter_turns_float(x, n);
    float value = (n & 1) == 0 ? sin_quarter_float(r) : cos_quarter_float(r);
    return (n & 2) == 0 ? value : -value;
}

// @function cos_float needs quarter_turns_float sin_quarter_float cos_quarter_float
precise float cos_float(float x) {
    int n;
    vec2 r = quarter_turns_float(x, n);
    float value = (n & 1) == 0 ? cos_quarter_float(r) : sin_quarter_float(r);
    return ((n + 1) & 2) == 0 ? value : -value;
}

// @function tan_float needs quarter_turns_float sin_quarter_float cos_quarter_float
precise float tan_float(float x) {
    int n;
    vec2 r = quarter_turns_float(x, n);
    return (n & 1) == 0 ? sin_quarter_float(r) / cos_quarter_float(r) : -(cos_quarter_float(r) / sin_quarter_float(r));
}

// @function asin_small_float
// asin x for |x| <= 1/2; error 3e-10
precise float asin_small_float(float x) {
    float z = x * x;
    return x + x * z * (0.1666665985 + z * (0.07500512203 + z * (0.04451545853
        + z * (0.03181990506 + z * (0.01439358375 + z * 0.03757830415)))));
}

// @function asin_float needs asin_small_float
// Beyond 1/2: asin x = pi/2 - 2 asin(sqrt((1 - x) / 2)).
precise float asin_float(float x) {
    float a = abs(x);
    if (!(a > 0.5)) return asin_small_float(x);
    float value = 1.57079633 - 2.0 * asin_small_float(sqrt(0.5 * (1.0 - a)));
    return x < 0.0 ? -value : value;
}

// @function acos_float needs asin_small_float
precise float acos_float(float x) {
    if (x > 0.5) return 2.0 * asin_small_float(sqrt(0.5 * (1.0 - x)));
    if (x < -0.5) return 3.14159265 - 2.0 * asin_small_float(sqrt(0.5 * (1.0 + x)));
    return 1.57079633 - asin_small_float(x);
}

// @function atan_small_float
// atan x for |x| <= tan(pi/8); error 7e-10
precise float atan_small_float(float x) {
    float z = x * x;
    return x == 0.0 ? x : x + x * z * (-0.3333331469 + z * (0.1999843497 + z * (-0.1424275158 + z * (0.1058744426 - z * 0.06060750388))));
}

// @function atan_float needs atan_small_float
precise float atan_float(float x) {
    float a = abs(x), value;
    if (a > 2.41421356) value = 1.57079633 - atan_small_float(1.0 / a);
    else if (a > 0.414213562) value = 0.785398163 + atan_small_float((a - 1.0) / (a + 1.0));
    else return atan_small_float(x);
    return x < 0.0 ? -value : value;
}

// @function atan2_float needs divide_float atan_float is_inf is_nan
precise float atan2_float(float y, float x) {
    if (is_nan(x) || is_nan(y)) return x + y;
    float a = abs(y), c = abs(x), angle;
    if (is_inf(a) && is_inf(c)) angle = 0.785398163;
    else if (a == 0.0) angle = 0.0;
    else angle = a > c ? 1.57079633 - atan_float(divide_float(c, a)) : atan_float(divide_float(a, c));
    if (floatBitsToInt(x) < 0) angle = 3.14159265 - angle;
    return floatBitsToInt(y) < 0 ? -angle : angle;
}
