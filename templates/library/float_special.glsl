// The error function and the gamma function with their relatives in single precision.

// @function erf_small
// erf x for |x| <= 1; error 1e-9
precise float erf_small(float x) {
    float z = x * x;
    return x + x * (0.1283791659 + z * (-0.3761262712 + z * (0.1128360002 + z * (-0.02685443777
        + z * (0.005189521749 + z * (-0.0008020715713 + z * 7.888682766e-5))))));
}

// @function erfc_tail needs exp_float high_part
// erfc x for 0.45 <= x <= 10.2: exp(-x^2) / (1 + 2x) times a polynomial in (x - 2) / (x + 2); error 1e-9
// (the form of Shepherd & Laframboise, Math. Comp. 36, 1981). x^2 is split, for exp magnifies its rounding.
precise float erfc_tail(float x) {
    x = min(x, 10.2);
    float head = high_part(x);
    float t = (x - 2.0) / (x + 2.0);
    float p = 1.276978381 + t * (-0.09276381144 + t * (-0.1660303712 + t * (0.1640505475 + t * (-0.05422057419
        + t * (-0.008024023322 + t * (0.008726746406 + t * (0.001214881179 + t * (-0.001467574263
        + t * (-0.0003099388224 + t * 0.0002132624069)))))))));
    return exp_float(-head * head) * exp_float((head - x) * (head + x)) * p / (1.0 + 2.0 * x);
}

// @function erf_float needs erf_small erfc_tail
precise float erf_float(float x) {
    float a = abs(x);
    if (!(a > 1.0)) return erf_small(x);
    float value = 1.0 - erfc_tail(a);
    return x < 0.0 ? -value : value;
}

// @function erfc_float needs erf_small erfc_tail
precise float erfc_float(float x) {
    float a = abs(x);
    if (!(a > 0.5)) return 1.0 - erf_small(x);
    float tail = erfc_tail(a);
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

// @function lgamma_near_two
// log(gamma(2 + e)) / e for -1/2 <= e <= 1; error 2e-9
precise float lgamma_near_two(float e) {
    return 0.4227843372 + e * (0.3224670317 + e * (-0.06735251318 + e * (0.02058098173 + e * (-0.007382240299
        + e * (0.00288636919 + e * (-0.001208188947 + e * (0.0005383382188 + e * (-0.0002127392719 + e * 4.58060594e-5))))))));
}

// @function lgamma_positive needs lgamma_near_two log_float log1p_float is_inf
// Up to 8 by lgamma(x + 1) = lgamma(x) + log(x), arranged so that the polynomial's argument is exact; beyond by
// Stirling's series (DLMF 5.11.1).
precise float lgamma_positive(float x) {
    if (x < 0.5) return x * lgamma_near_two(x) - log1p_float(x) - log_float(x);
    if (x < 1.5) return (x - 1.0) * lgamma_near_two(x - 1.0) - log1p_float(x - 1.0);
    if (x < 8.0) {
        float product = 1.0;
        while (x > 3.0) { x -= 1.0; product *= x; }
        return (x - 2.0) * lgamma_near_two(x - 2.0) + log_float(product);
    }
    if (is_inf(x)) return x;
    float r = 1.0 / x, z = r * r, l = log_float(x);
    return x * (l - 1.0) - 0.5 * l + (0.918938533 + r * (0.0833333333 + z * (-0.00277777778 + z * 7.93650794e-4)));
}

// @function sin_half_turns needs sin_quarter cos_quarter
// sin(pi x), exact at whole x.
precise float sin_half_turns(float x) {
    float k = roundEven(2.0 * x);
    float r = (x - 0.5 * k) * 3.14159265;
    int n = int(k - 4.0 * floor(0.25 * k));
    float value = (n & 1) == 0 ? sin_quarter(r) : cos_quarter(r);
    return (n & 2) == 0 ? value : -value;
}

// @function lgamma_float needs lgamma_positive sin_half_turns log_float inf_float is_inf
// For negative x by reflection (DLMF 5.5.3).
precise float lgamma_float(float x) {
    if (x > 0.0) return lgamma_positive(x);
    if (is_inf(x) || x == floor(x)) return inf_float();
    return 1.14472989 - log_float(abs(x * sin_half_turns(x))) - lgamma_positive(-x);
}

// @function digamma_positive needs log_float
// Up by digamma(x) = digamma(x + 1) - 1/x, then the asymptotic series (DLMF 5.11.2).
precise float digamma_positive(float x) {
    float total = 0.0;
    while (x < 6.0) { total -= 1.0 / x; x += 1.0; }
    float r = 1.0 / x, z = r * r;
    return total + (log_float(x) - 0.5 * r - z * (0.0833333333 - z * (0.00833333333 - z * 0.00396825397)));
}

// @function digamma_float needs digamma_positive sin_half_turns inf_float nan_float
// For negative x by reflection (DLMF 5.5.4); cos(pi x) = sin(pi (x + 1/2)) with x first taken to |x| <= 1/2.
precise float digamma_float(float x) {
    if (x > 0.0) return digamma_positive(x);
    if (x == 0.0) return floatBitsToInt(x) < 0 ? inf_float() : -inf_float();
    if (!(x != floor(x))) return nan_float();
    float r = x - roundEven(x);
    return digamma_positive(1.0 - x) - 3.14159265 * sin_half_turns(r + 0.5) / sin_half_turns(r);
}

// @function hurwitz_zeta
// The sum of (x + k)^-s over k >= 0 for x > 0 and a whole s >= 2, by Euler and Maclaurin (DLMF 25.11.43).
precise float hurwitz_zeta(int s, float x) {
    float total = 0.0;
    for (int k = 0; k < 10; ++k) {
        float power = 1.0;
        for (int i = 0; i < s; ++i) power /= x;
        total += power;
        x += 1.0;
    }
    float power = 1.0;
    for (int i = 1; i < s; ++i) power /= x;
    float n = float(s), z = 1.0 / (x * x);
    float series = n / 12.0 * (1.0 - (n + 1.0) * (n + 2.0) * z / 60.0 * (1.0 - (n + 3.0) * (n + 4.0) * z / 42.0));
    return total + power * (1.0 / (n - 1.0) + 0.5 / x + series * z);
}

// @function polygamma_float needs hurwitz_zeta sin_half_turns inf_float nan_float is_inf is_nan
// (-1)^(n + 1) n! zeta(n + 1, x); for negative x only n = 1, by reflection (DLMF 5.15.6).
precise float polygamma_float(int n, float x) {
    if (is_nan(x)) return x;
    if (is_inf(x)) return x > 0.0 ? 0.0 : nan_float();
    if (x > 0.0) {
        float factor = (n & 1) == 1 ? 1.0 : -1.0;
        for (int k = 2; k <= n; ++k) factor *= float(k);
        return factor * hurwitz_zeta(n + 1, x);
    }
    if (n != 1) return nan_float();
    if (x == floor(x)) return inf_float();
    float s = 3.14159265 / sin_half_turns(x);
    return s * s - hurwitz_zeta(2, 1.0 - x);
}
