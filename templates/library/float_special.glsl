// The error function and the gamma function with their relatives in single precision.

// @function erf_small_float
// erf x for |x| <= 1; error 1e-9
precise float erf_small_float(float x) {
    if (abs(x) < 1e-6) return x * 1.12837917;  // a device may take the small term for 0
    float z = x * x;
    return x + x * (0.1283791659 + z * (-0.3761262712 + z * (0.1128360002 + z * (-0.02685443777
        + z * (0.005189521749 + z * (-0.0008020715713 + z * 7.888682766e-5))))));
}

// @function erfc_tail_float needs exp_scaled_float two_product_float
// erfc x for 0.45 <= x <= 10.2: exp(-x^2) / (1 + 2x) times a polynomial in (x - 2) / (x + 2); error 1e-9
// (the form of Shepherd & Laframboise, Math. Comp. 36, 1981). x^2 is in two parts, for exp magnifies its rounding.
precise float erfc_tail_float(float x) {
    x = min(x, 10.2);
    precise vec2 square = two_product_float(x, x);
    precise float t = (x - 2.0) / (x + 2.0);
    precise float p = 1.276978381 + t * (-0.09276381144 + t * (-0.1660303712 + t * (0.1640505475 + t * (-0.05422057419
        + t * (-0.008024023322 + t * (0.008726746406 + t * (0.001214881179 + t * (-0.001467574263
        + t * (-0.0003099388224 + t * 0.0002132624069)))))))));
    return exp_scaled_float(-square.x, -square.y, 0) * (p / (1.0 + 2.0 * x));
}

// @function erf_float needs erf_small_float erfc_tail_float
precise float erf_float(float x) {
    float a = abs(x);
    if (!(a > 1.0)) return erf_small_float(x);
    float value = 1.0 - erfc_tail_float(a);
    return x < 0.0 ? -value : value;
}

// @function erfc_float needs erf_small_float erfc_tail_float
precise float erfc_float(float x) {
    float a = abs(x);
    if (!(a > 0.8)) return 1.0 - erf_small_float(x);
    float tail = erfc_tail_float(a);
    return x < 0.0 ? 2.0 - tail : tail;
}

// @function erfinv_float needs log1p_float log_float inf_float nan_float
// x times a polynomial in w - 2.5, w = -log(1 - x^2), or in sqrt(w) - 3 for w >= 5; error 5e-8 (the variables of
// M. Giles, "Approximating the erfinv function", GPU Computing Gems, 2011).
precise float erfinv_float(float x) {
    float a = abs(x);
    if (!(a < 1.0)) return a == 1.0 ? x * inf_float() : nan_float();
    float w = a < 0.5 ? -log1p_float(-x * x) : -log_float((1.0 - a) * (1.0 + a));
    if (w < 5.0) {
        w -= 2.5;
        return x * (1.501409359 + w * (0.2466402961 + w * (-0.00417738416 + w * (-0.001252763767 + w * (0.0002183422271
            + w * (-4.950482636e-6 + w * (-3.462117856e-6 + w * (4.633846252e-7 + w * (2.318447157e-8 - w * 8.590650977e-9)))))))));
    }
    float s = sqrt(w) - 3.0;
    return x * (2.832976826 + s * (1.001674878 + s * (0.009443942047 + s * (-0.00763574098 + s * (0.005697773658
        + s * (-0.003606276597 + s * (0.001457594767 + s * (-3.548761516e-5 + s * (-0.0002876234471 + s * 9.795587464e-5)))))))));
}

// @function lgamma_to_three_float needs lgamma_one_float lgamma_two_float
// lgamma(1 + e) for -0.3 <= e <= 2: both roots are factors.
precise float lgamma_to_three_float(float e) {
    if (e < 0.5) return e == 0.0 ? e : e * (e - 1.0) * lgamma_one_float(e);
    precise float f = e - 1.0;
    return f * e * lgamma_two_float(f);
}

// @function lgamma_positive_float needs lgamma_to_three_float log_float log_pair_float is_inf
// Up to 10 by lgamma(x + 1) = lgamma(x) + log(x); beyond by Stirling's series (DLMF 5.11.1).
precise float lgamma_positive_float(float x) {
    if (is_inf(x)) return x;
    if (x < 0.7) return lgamma_to_three_float(x) - log_float(x);
    if (x <= 3.0) return lgamma_to_three_float(x - 1.0);
    if (x < 10.0) {
        precise float product = 1.0;
        while (x > 3.0) { x -= 1.0; product *= x; }
        return lgamma_to_three_float(x - 1.0) + log_float(product);
    }
    precise float r = 1.0 / x, z = r * r;
    precise float series = r * (0.0833333333 + z * (-0.00277777778 + z * (7.93650794e-4
        - z * 5.95238095e-4)));
    precise vec2 l = log_pair_float(x);
    return x * (l.x - 1.0) + (x * l.y + (0.918938533 - 0.5 * l.x + series));
}

// @function sin_half_turns_float needs sin_quarter_float cos_quarter_float two_product_float
// sin(pi x), exact at whole x; pi in two parts.
precise float sin_half_turns_float(float x) {
    precise float k = roundEven(2.0 * x);
    precise float r = x - 0.5 * k;
    precise vec2 angle = two_product_float(r, 3.14159274);
    angle.y -= r * 8.74227766e-8;
    int n = int(k - 4.0 * floor(0.25 * k));
    float value = (n & 1) == 0 ? sin_quarter_float(angle) : cos_quarter_float(angle);
    return (n & 2) == 0 ? value : -value;
}

// @function lgamma_float needs lgamma_positive_float lgamma_to_three_float sin_half_turns_float log_float inf_float is_inf
// For negative x by reflection (DLMF 5.5.3), near 0 by the recurrence.
precise float lgamma_float(float x) {
    if (x > 0.0) return lgamma_positive_float(x);
    if (is_inf(x) || x == floor(x)) return inf_float();
    if (x > -0.3) return lgamma_to_three_float(x) - log_float(-x);
    return 1.14472989 - log_float(abs(x * sin_half_turns_float(x))) - lgamma_positive_float(-x);
}

// @function digamma_to_four_float needs digamma_root_float digamma_three_float
// digamma(1 + e) for 0 <= e <= 3. Its root has a factor of its own, in two parts.
precise float digamma_to_four_float(float e) {
    if (e > 1.0) return digamma_three_float(e - 2.0);
    precise float from_root = (e - 0.461632133) - 1.24381500e-8;
    return from_root * digamma_root_float(from_root);
}

// @function digamma_positive_float needs digamma_to_four_float log_float
// Below 10 by digamma(x + 1) = digamma(x) + 1/x, then the asymptotic series (DLMF 5.11.2).
precise float digamma_positive_float(float x) {
    if (x < 1.0) return digamma_to_four_float(x) - 1.0 / x;
    if (x < 10.0) {
        precise float total = 0.0;
        while (x > 4.0) { x -= 1.0; total += 1.0 / x; }
        return digamma_to_four_float(x - 1.0) + total;
    }
    precise float r = 1.0 / x, z = r * r;
    precise float series = z * (0.0833333333 - z * (0.00833333333 - z * (0.00396825397 - z * 0.00416666667)));
    return log_float(x) - (0.5 * r + series);
}

// @function digamma_float needs two_product_float digamma_positive_float sin_half_turns_float inf_float nan_float
// For negative x by reflection (DLMF 5.5.4), with x first taken to |x| <= 1/2.
precise float digamma_float(float x) {
    if (x > 0.0) return digamma_positive_float(x);
    if (x == 0.0) return floatBitsToInt(x) < 0 ? inf_float() : -inf_float();
    if (!(x != floor(x))) return nan_float();
    if (x > -1e-9) return -1.0 / x - 0.577215665;
    precise float r = x - roundEven(x);
    precise float cosine = sin_half_turns_float(0.5 - abs(r)), sine = sin_half_turns_float(r);
    precise float q = cosine / sine;
    precise vec2 back = two_product_float(q, sine), turned = two_product_float(q, 3.14159274);
    turned.y = turned.y - q * 8.74227766e-8 + ((cosine - back.x) - back.y) / sine * 3.14159274;
    return (digamma_positive_float(1.0 - x) - turned.x) - turned.y;
}

// @function hurwitz_zeta_float
// The sum of (x + k)^-s over k >= 0 for x > 0 and a whole s >= 2, by Euler and Maclaurin from 12 on (DLMF 25.11.43).
// Small terms are added first.
precise float hurwitz_zeta_float(int s, float x) {
    const float bernoulli[4] = float[4](0.0833333333, -0.00138888889, 3.30687831e-5, -8.26719577e-7);
    int steps = x < 12.0 ? int(ceil(12.0 - x)) : 0;
    precise float end = x + float(steps), power = end;
    for (int i = 2; i < s; ++i) power *= end;
    precise float n = float(s), factor = n, z = 1.0 / (end * end), falling = 1.0 / end, series = 0.0;
    for (int k = 0; k < 4; ++k) {
        series += bernoulli[k] * factor * falling;
        factor *= (n + float(2 * k + 1)) * (n + float(2 * k + 2));
        falling *= z;
    }
    precise float total = (end / (n - 1.0) + 0.5 + series) / power / end;
    for (int k = steps - 1; k >= 0; --k) {
        precise float inverse = 1.0 / (x + float(k));
        power = inverse;
        for (int i = 1; i < s; ++i) power *= inverse;
        total += power;
    }
    return total;
}

// @function polygamma_float needs hurwitz_zeta_float sin_half_turns_float inf_float nan_float is_inf is_nan
// (-1)^(n + 1) n! zeta(n + 1, x); for negative x by reflection (DLMF 5.15.6): (-1)^n polygamma(n, 1 - x) less the
// derivative of pi cot(pi x), a polynomial p in c = cot(pi x) whose terms have one sign; one more makes it -(1 + c^2) p'.
precise float polygamma_float(int n, float x) {
    if (is_nan(x)) return x;
    if (is_inf(x)) return x > 0.0 ? 0.0 : nan_float();
    precise float factor = (n & 1) == 1 ? 1.0 : -1.0;
    for (int k = 2; k <= n; ++k) factor *= float(k);
    if (x > 0.0) return factor * hurwitz_zeta_float(n + 1, x);
    if (x == floor(x)) {
        if ((n & 1) == 1) return inf_float();
        return x != 0.0 ? nan_float() : floatBitsToInt(x) < 0 ? inf_float() : -inf_float();
    }
    if (n == 1) {
        precise float s = 3.14159265 / sin_half_turns_float(x);
        return s * s - hurwitz_zeta_float(2, 1.0 - x);
    }
    const int most = 16;
    if (n > most) return nan_float();
    precise float p[most + 2], r = x - roundEven(x);
    precise float c = sin_half_turns_float(0.5 - abs(r)) / sin_half_turns_float(r), scale = 3.14159265;
    for (int k = 0; k < most + 2; ++k) p[k] = 0.0;
    p[1] = 1.0;
    for (int order = 1; order <= n; ++order) {
        precise float above = 0.0;
        for (int k = order + 1; k >= 0; --k) {
            precise float own = p[k], below = k >= 2 ? float(k - 1) * p[k - 1] : 0.0;
            p[k] = -(below + float(k + 1) * above);
            above = own;
        }
        scale *= 3.14159265;
    }
    precise float total = p[n + 1];
    for (int k = n; k >= 0; --k) total = total * c + p[k];
    return ((n & 1) == 1 ? -factor : factor) * hurwitz_zeta_float(n + 1, 1.0 - x) - scale * total;
}
