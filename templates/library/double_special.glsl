// The error function and the gamma function with their relatives in double precision. The polynomials are in
// polynomials.glsl.

// @function erf_small_double needs erf_tail_double
// erf x for |x| <= 1
precise double erf_small_double(double x) { return x + x * erf_tail_double(x * x); }

// @function erfc_tail_double needs exp_scaled_double two_product erfc_scaled_double
// erfc x for x >= 0.45: exp(-x^2) / (1 + 2x) times a polynomial in (x - 2) / (x + 2) (the form of Shepherd &
// Laframboise, Math. Comp. 36, 1981). x^2 is in two parts, for exp magnifies its rounding.
precise double erfc_tail_double(double x) {
    x = min(x, 28.0lf);
    precise dvec2 square = two_product(x, x);
    precise double scaled = erfc_scaled_double((x - 2.0lf) / (x + 2.0lf)) / (1.0lf + 2.0lf * x);
    return exp_scaled_double(-square.x, -square.y, 0) * scaled;
}

// @function erf_double needs erf_small_double erfc_tail_double with_sign_double
precise double erf_double(double x) {
    double a = abs(x);
    if (!(a > 1.0lf)) return erf_small_double(x);
    return with_sign_double(1.0lf - erfc_tail_double(a), x);
}

// @function erfc_double needs erf_small_double erfc_tail_double
precise double erfc_double(double x) {
    double a = abs(x);
    if (!(a > 0.8lf)) return 1.0lf - erf_small_double(x);
    precise double tail = erfc_tail_double(a);
    return x < 0.0lf ? 2.0lf - tail : tail;
}

// @function erfinv_double needs erfinv_near_double erfinv_middle_double erfinv_far_double log1p_double log_double inf_double nan_double with_sign_double
// x times a polynomial in w or sqrt(w), w = -log(1 - x^2) (the variables of M. Giles, "Approximating the erfinv
// function", GPU Computing Gems, 2011).
precise double erfinv_double(double x) {
    double a = abs(x);
    if (!(a < 1.0lf)) return a == 1.0lf ? with_sign_double(inf_double(), x) : nan_double();
    precise double w = a < 0.5lf ? -log1p_double(-x * x) : -log_double((1.0lf - a) * (1.0lf + a));
    if (w < 6.0lf) return x * erfinv_near_double(w - 3.0lf);
    precise double s = sqrt(w);
    return x * (w < 16.0lf ? erfinv_middle_double(s - 3.25lf) : erfinv_far_double(s - 5.0lf));
}

// @function lgamma_to_three_double needs lgamma_one_double lgamma_two_double
// lgamma(1 + e) for -0.3 <= e <= 2: both roots are factors.
precise double lgamma_to_three_double(double e) {
    if (e < 0.5lf) return e == 0.0lf ? e : e * (e - 1.0lf) * lgamma_one_double(e);
    precise double f = e - 1.0lf;
    return f * e * lgamma_two_double(f);
}

// @function lgamma_positive_double needs lgamma_to_three_double log_double log_pair_double is_inf
// Up to 10 by lgamma(x + 1) = lgamma(x) + log(x); beyond by Stirling's series (DLMF 5.11.1).
precise double lgamma_positive_double(double x) {
    if (is_inf(x)) return x;
    if (x < 0.7lf) return lgamma_to_three_double(x) - log_double(x);
    if (x <= 3.0lf) return lgamma_to_three_double(x - 1.0lf);
    if (x < 10.0lf) {
        precise double product = 1.0lf;
        while (x > 3.0lf) { x -= 1.0lf; product *= x; }
        return lgamma_to_three_double(x - 1.0lf) + log_double(product);
    }
    precise double r = 1.0lf / x, z = r * r;
    precise double series = r * (0.08333333333333333lf + z * (-0.002777777777777778lf + z * (0.0007936507936507937lf
        + z * (-0.0005952380952380953lf + z * (0.0008417508417508417lf + z * (-0.0019175269175269176lf
        + z * 0.00641025641025641lf))))));
    precise dvec2 l = log_pair_double(x);
    return x * (l.x - 1.0lf) + (x * l.y + (0.9189385332046728lf - 0.5lf * l.x + series));
}

// @function sin_half_turns_double needs sin_quarter_double cos_quarter_double two_product
// sin(pi x), exact at whole x; pi in two parts.
precise double sin_half_turns_double(double x) {
    precise double k = roundEven(2.0lf * x);
    precise double r = x - 0.5lf * k;
    precise dvec2 angle = two_product(r, 3.141592653589793lf);
    angle.y += r * 1.2246467991473532e-16lf;
    int n = int(k - 4.0lf * floor(0.25lf * k));
    double value = (n & 1) == 0 ? sin_quarter_double(angle) : cos_quarter_double(angle);
    return (n & 2) == 0 ? value : -value;
}

// @function lgamma_double needs lgamma_positive_double lgamma_to_three_double sin_half_turns_double log_double inf_double is_inf
// For negative x by reflection (DLMF 5.5.3), near 0 by the recurrence.
precise double lgamma_double(double x) {
    if (x > 0.0lf) return lgamma_positive_double(x);
    if (is_inf(x) || x == floor(x)) return inf_double();
    if (x > -0.3lf) return lgamma_to_three_double(x) - log_double(-x);
    return 1.1447298858494002lf - log_double(abs(x * sin_half_turns_double(x))) - lgamma_positive_double(-x);
}

// @function digamma_to_four_double needs digamma_root_double digamma_three_double
// digamma(1 + e) for 0 <= e <= 3. Its root has a factor of its own, in two parts.
precise double digamma_to_four_double(double e) {
    if (e > 1.0lf) return digamma_three_double(e - 2.0lf);
    precise double from_root = (e - 0.46163214496836236lf) + 1.5522348162858677e-17lf;
    return from_root * digamma_root_double(from_root);
}

// @function digamma_positive_double needs digamma_to_four_double log_double
// Below 10 by digamma(x + 1) = digamma(x) + 1/x, then the asymptotic series (DLMF 5.11.2).
precise double digamma_positive_double(double x) {
    if (x < 1.0lf) return digamma_to_four_double(x) - 1.0lf / x;
    if (x < 10.0lf) {
        precise double total = 0.0lf;
        while (x > 4.0lf) { x -= 1.0lf; total += 1.0lf / x; }
        return digamma_to_four_double(x - 1.0lf) + total;
    }
    precise double r = 1.0lf / x, z = r * r;
    precise double series = z * (0.08333333333333333lf - z * (0.008333333333333333lf - z * (0.003968253968253968lf
        - z * (0.004166666666666667lf - z * (0.007575757575757576lf - z * (0.021092796092796094lf
        - z * 0.08333333333333333lf))))));
    return log_double(x) - (0.5lf * r + series);
}

// @function digamma_double needs two_product digamma_positive_double sin_half_turns_double negative_double inf_double nan_double
// For negative x by reflection (DLMF 5.5.4), with x first taken to |x| <= 1/2.
precise double digamma_double(double x) {
    if (x > 0.0lf) return digamma_positive_double(x);
    if (x == 0.0lf) return negative_double(x) ? inf_double() : -inf_double();
    if (!(x != floor(x))) return nan_double();
    if (x > -1e-9lf) return -1.0lf / x - 0.5772156649015329lf;
    precise double r = x - roundEven(x);
    precise double cosine = sin_half_turns_double(0.5lf - abs(r)), sine = sin_half_turns_double(r);
    precise double q = cosine / sine;
    precise dvec2 back = two_product(q, sine), turned = two_product(q, 3.141592653589793lf);
    turned.y = turned.y + q * 1.2246467991473532e-16lf + ((cosine - back.x) - back.y) / sine * 3.141592653589793lf;
    return (digamma_positive_double(1.0lf - x) - turned.x) - turned.y;
}

// @function hurwitz_zeta_double
// The sum of (x + k)^-s over k >= 0 for x > 0 and a whole s >= 2, by Euler and Maclaurin from 12 on (DLMF 25.11.43).
// Small terms are added first.
precise double hurwitz_zeta_double(int s, double x) {
    const double bernoulli[8] = double[8](
        0.08333333333333333lf, -0.001388888888888889lf, 3.306878306878307e-05lf, -8.267195767195768e-07lf,
        2.08767569878681e-08lf, -5.284190138687493e-10lf, 1.3382536530684679e-11lf, -3.3896802963225827e-13lf);
    int steps = x < 12.0lf ? int(ceil(12.0lf - x)) : 0;
    precise double end = x + double(steps), power = end;
    for (int i = 2; i < s; ++i) power *= end;
    precise double n = double(s), factor = n, z = 1.0lf / (end * end), falling = 1.0lf / end, series = 0.0lf;
    for (int k = 0; k < 8; ++k) {
        series += bernoulli[k] * factor * falling;
        factor *= (n + double(2 * k + 1)) * (n + double(2 * k + 2));
        falling *= z;
    }
    precise double total = (end / (n - 1.0lf) + 0.5lf + series) / power / end;
    for (int k = steps - 1; k >= 0; --k) {
        precise double inverse = 1.0lf / (x + double(k));
        power = inverse;
        for (int i = 1; i < s; ++i) power *= inverse;
        total += power;
    }
    return total;
}

// @function polygamma_double needs hurwitz_zeta_double sin_half_turns_double negative_double inf_double nan_double is_inf is_nan
// (-1)^(n + 1) n! zeta(n + 1, x); for negative x by reflection (DLMF 5.15.6): (-1)^n polygamma(n, 1 - x) less the
// derivative of pi cot(pi x), a polynomial p in c = cot(pi x) whose terms have one sign; one more makes it -(1 + c^2) p'.
precise double polygamma_double(int n, double x) {
    if (is_nan(x)) return x;
    if (is_inf(x)) return x > 0.0lf ? 0.0lf : nan_double();
    precise double factor = (n & 1) == 1 ? 1.0lf : -1.0lf;
    for (int k = 2; k <= n; ++k) factor *= double(k);
    if (x > 0.0lf) return factor * hurwitz_zeta_double(n + 1, x);
    if (x == floor(x)) {
        if ((n & 1) == 1) return inf_double();
        return x != 0.0lf ? nan_double() : negative_double(x) ? inf_double() : -inf_double();
    }
    if (n == 1) {
        precise double s = 3.141592653589793lf / sin_half_turns_double(x);
        return s * s - hurwitz_zeta_double(2, 1.0lf - x);
    }
    const int most = 16;
    if (n > most) return nan_double();
    precise double p[most + 2], r = x - roundEven(x);
    precise double c = sin_half_turns_double(0.5lf - abs(r)) / sin_half_turns_double(r), scale = 3.141592653589793lf;
    for (int k = 0; k < most + 2; ++k) p[k] = 0.0lf;
    p[1] = 1.0lf;
    for (int order = 1; order <= n; ++order) {
        precise double above = 0.0lf;
        for (int k = order + 1; k >= 0; --k) {
            precise double own = p[k], below = k >= 2 ? double(k - 1) * p[k - 1] : 0.0lf;
            p[k] = -(below + double(k + 1) * above);
            above = own;
        }
        scale *= 3.141592653589793lf;
    }
    precise double total = p[n + 1];
    for (int k = n; k >= 0; --k) total = total * c + p[k];
    return ((n & 1) == 1 ? -factor : factor) * hurwitz_zeta_double(n + 1, 1.0lf - x) - scale * total;
}
