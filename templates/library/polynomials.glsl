// Written by script/coefficients.py, which says how: do not edit. Polynomials of the library.

// @function exp_tail_double
// (e^r - 1 - r) / r^2 for |r| <= ln(2) / 2; error 2e-18
precise double exp_tail_double(double x) {
    precise double y = 2.09147553258932e-09lf;
    y = 2.5105312729622103e-08lf + x * y;
    y = 2.755727347871858e-07lf + x * y;
    y = 2.755725517000089e-06lf + x * y;
    y = 2.480158732567746e-05lf + x * y;
    y = 0.0001984126987500228lf + x * y;
    y = 0.0013888888888883711lf + x * y;
    y = 0.008333333333326084lf + x * y;
    y = 0.04166666666666667lf + x * y;
    y = 0.1666666666666667lf + x * y;
    y = 0.5lf + x * y;
    return y;
}

// @function log_tail_double
// (log((1 + s) / (1 - s)) - 2s) / s^3 in z = s^2 for |s| <= 3 - sqrt(8); error 3e-18
precise double log_tail_double(double x) {
    precise double y = 0.1308723619665962lf;
    y = 0.13268714792348096lf + x * y;
    y = 0.15386241881938595lf + x * y;
    y = 0.18181795600060793lf + x * y;
    y = 0.22222222392089008lf + x * y;
    y = 0.28571428570801954lf + x * y;
    y = 0.4000000000000088lf + x * y;
    y = 0.6666666666666666lf + x * y;
    return y;
}

// @function log_far_tail_double
// (atanh(s) - s - s^3 / 3) / s^5 in z = s^2 for |s| <= 3 - sqrt(8); error 5e-18
precise double log_far_tail_double(double x) {
    precise double y = 0.058618018114527055lf;
    y = 0.05853097844940682lf + x * y;
    y = 0.06667403106050301lf + x * y;
    y = 0.07692297467298959lf + x * y;
    y = 0.0909090916782708lf + x * y;
    y = 0.11111111110827367lf + x * y;
    y = 0.14285714285714685lf + x * y;
    y = 0.2lf + x * y;
    return y;
}

// @function sin_tail_double
// (sin r - r) / r^3 in z = r^2 for |r| <= pi / 4; error 7e-20
precise double sin_tail_double(double x) {
    precise double y = -7.586584848459799e-13lf;
    y = 1.605852971266686e-10lf + x * y;
    y = -2.5052106220409384e-08lf + x * y;
    y = 2.7557319219304477e-06lf + x * y;
    y = -0.0001984126984126502lf + x * y;
    y = 0.008333333333333331lf + x * y;
    y = -0.16666666666666666lf + x * y;
    return y;
}

// @function cos_tail_double
// (cos r - 1 + z / 2) / z^2 in z = r^2 for |r| <= pi / 4; error 2e-20
precise double cos_tail_double(double x) {
    precise double y = 4.745809482337876e-14lf;
    y = -1.1470459827734685e-11lf + x * y;
    y = 2.0876755784387464e-09lf + x * y;
    y = -2.755731922138354e-07lf + x * y;
    y = 2.480158730158462e-05lf + x * y;
    y = -0.0013888888888888887lf + x * y;
    y = 0.041666666666666664lf + x * y;
    return y;
}

// @function asin_tail_double
// (asin x - x) / x^3 in z = x^2 for |x| <= 1/2; error 5e-18
precise double asin_tail_double(double x) {
    precise double y = 0.02963502626354855lf;
    y = -0.019277545928584557lf + x * y;
    y = 0.019579201619744684lf + x * y;
    y = 0.0030350071727267623lf + x * y;
    y = 0.009322101501082774lf + x * y;
    y = 0.00962140274734483lf + x * y;
    y = 0.011566511821890942lf + x * y;
    y = 0.013963775787848137lf + x * y;
    y = 0.017352816768546473lf + x * y;
    y = 0.022372157435623815lf + x * y;
    y = 0.030381944475693704lf + x * y;
    y = 0.04464285714255019lf + x * y;
    y = 0.07500000000000119lf + x * y;
    y = 0.16666666666666666lf + x * y;
    return y;
}

// @function atan_tail_double
// (atan x - x) / x^3 in z = x^2 for |x| <= tan(pi / 8); error 3e-18
precise double atan_tail_double(double x) {
    precise double y = 0.01627552168389342lf;
    y = -0.03456132296826231lf + x * y;
    y = 0.04551233844829568lf + x * y;
    y = -0.05230375457576669lf + x * y;
    y = 0.058789182929757273lf + x * y;
    y = -0.06666423954373413lf + x * y;
    y = 0.07692296323157785lf + x * y;
    y = -0.09090908751706075lf + x * y;
    y = 0.11111111105119366lf + x * y;
    y = -0.14285714285659457lf + x * y;
    y = 0.19999999999999804lf + x * y;
    y = -0.3333333333333333lf + x * y;
    return y;
}

// @function sinh_tail_double
// (sinh x - x) / x^3 in z = x^2 for |x| <= 1; error 1e-21
precise double sinh_tail_double(double x) {
    precise double y = 2.8445264169895285e-15lf;
    y = 7.646625361656657e-13lf + x * y;
    y = 1.6059048396350562e-10lf + x * y;
    y = 2.505210836405804e-08lf + x * y;
    y = 2.755731922404034e-06lf + x * y;
    y = 0.00019841269841269773lf + x * y;
    y = 0.008333333333333333lf + x * y;
    y = 0.16666666666666666lf + x * y;
    return y;
}

// @function erf_tail_double
// erf(x) / x - 1 in z = x^2 for |x| <= 1; error 1e-20
precise double erf_tail_double(double x) {
    precise double y = -4.230945824295338e-12lf;
    y = 8.709045129053106e-11lf + x * y;
    y = -1.216456005728345e-09lf + x * y;
    y = 1.4792401209404813e-08lf + x * y;
    y = -1.6364642158167616e-07lf + x * y;
    y = 1.6462045441468418e-06lf + x * y;
    y = -1.4925647567519332e-05lf + x * y;
    y = 0.00012055332902888736lf + x * y;
    y = -0.000854832702193483lf + x * y;
    y = 0.0052239776254232985lf + x * y;
    y = -0.02686617064512984lf + x * y;
    y = 0.1128379167095512lf + x * y;
    y = -0.37612638903183754lf + x * y;
    y = 0.1283791670955126lf + x * y;
    return y;
}

// @function erfc_scaled_double
// (1 + 2x) exp(x^2) erfc(x) in t = (x - 2) / (x + 2) for 0.45 <= x <= 28; error 1e-18
precise double erfc_scaled_double(double x) {
    precise double y = -2.1808260947725646e-08lf;
    y = -3.321838726189005e-08lf + x * y;
    y = 1.5241342847916886e-07lf + x * y;
    y = 2.353172579886566e-07lf + x * y;
    y = -2.6979737787405225e-07lf + x * y;
    y = -9.186615924154872e-07lf + x * y;
    y = -6.793691055113291e-07lf + x * y;
    y = 1.5476730282192414e-06lf + x * y;
    y = 5.212394064661277e-06lf + x * y;
    y = 3.69606392874751e-06lf + x * y;
    y = -1.3488335012380008e-05lf + x * y;
    y = -3.642009229261837e-05lf + x * y;
    y = -1.5109714541706609e-06lf + x * y;
    y = 0.0001510386926031309lf + x * y;
    y = 0.0002063673895022799lf + x * y;
    y = -0.0004543407825672731lf + x * y;
    y = -0.0014568139645700828lf + x * y;
    y = 0.0012713389627601207lf + x * y;
    y = 0.008722653876716467lf + x * y;
    y = -0.008034015082299081lf + x * y;
    y = -0.05422000099206633lf + x * y;
    y = 0.16405128003343966lf + x * y;
    y = -0.16603039761528907lf + x * y;
    y = -0.09276382658574599lf + x * y;
    y = 1.2769783815525286lf + x * y;
    return y;
}

// @function erfinv_near_double
// erfinv(x) / x in w - 3, w = -log(1 - x^2) <= 6; error 5e-18
precise double erfinv_near_double(double x) {
    precise double y = 4.3365108728052284e-21lf;
    y = -1.0208579184067737e-20lf + x * y;
    y = -3.916147418353629e-19lf + x * y;
    y = 2.041128987471601e-18lf + x * y;
    y = 1.2874404438462327e-17lf + x * y;
    y = -1.6254732807968212e-16lf + x * y;
    y = 2.7405937576497107e-16lf + x * y;
    y = 6.3390023944065686e-15lf + x * y;
    y = -5.2929720447210423e-14lf + x * y;
    y = 6.190781479406506e-15lf + x * y;
    y = 2.698965230909085e-12lf + x * y;
    y = -1.732853873192884e-11lf + x * y;
    y = -3.1425551279949383e-11lf + x * y;
    y = 1.1107974232037305e-09lf + x * y;
    y = -5.4671789842189004e-09lf + x * y;
    y = -2.368872626492295e-08lf + x * y;
    y = 4.4998542545718333e-07lf + x * y;
    y = -1.7480020967030342e-06lf + x * y;
    y = -1.2716422638720585e-05lf + x * y;
    y = 0.00019506132441372799lf + x * y;
    y = -0.0008361817769093166lf + x * y;
    y = -0.005738135221005968lf + x * y;
    y = 0.24163040416615827lf + x * y;
    y = 1.6235420064648298lf + x * y;
    return y;
}

// @function erfinv_middle_double
// erfinv(x) / x in sqrt(w) - 3.25 for 6 <= w <= 16; error 9e-19
precise double erfinv_middle_double(double x) {
    precise double y = -8.366991028040262e-10lf;
    y = 7.437440757612723e-09lf + x * y;
    y = -1.2855441953556396e-08lf + x * y;
    y = -2.0221271585435788e-08lf + x * y;
    y = 1.2850741553474974e-07lf + x * y;
    y = -2.4633944276834524e-07lf + x * y;
    y = -2.5446685345484836e-08lf + x * y;
    y = 1.4821627009104742e-06lf + x * y;
    y = -3.9866464902292325e-06lf + x * y;
    y = 2.93234939610237e-06lf + x * y;
    y = 1.2465286468276887e-05lf + x * y;
    y = -4.732062325133999e-05lf + x * y;
    y = 6.828707275677801e-05lf + x * y;
    y = 2.403150411985545e-05lf + x * y;
    y = -0.00035503780912276114lf + x * y;
    y = 0.0009532893423428387lf + x * y;
    y = -0.0016882755357183078lf + x * y;
    y = 0.0024914420979232255lf + x * y;
    y = -0.0037512085082175377lf + x * y;
    y = 0.0053709145535556085lf + x * y;
    y = 1.0052589676941652lf + x * y;
    y = 3.0838856104922208lf + x * y;
    return y;
}

// @function erfinv_far_double
// erfinv(x) / x in sqrt(w) - 5 for 16 <= w <= 37; error 8e-19
precise double erfinv_far_double(double x) {
    precise double y = 5.204163456461932e-12lf;
    y = -2.060969133760821e-11lf + x * y;
    y = 1.801973944406497e-11lf + x * y;
    y = 7.052691690139397e-11lf + x * y;
    y = -3.8749197925468794e-10lf + x * y;
    y = 1.3142575135521462e-09lf + x * y;
    y = -3.526662397436892e-09lf + x * y;
    y = 7.823113564051766e-09lf + x * y;
    y = -1.5218605936601813e-08lf + x * y;
    y = 2.9017709188103097e-08lf + x * y;
    y = -6.757076626669579e-08lf + x * y;
    y = 2.2905312726757966e-07lf + x * y;
    y = -9.930259565913154e-07lf + x * y;
    y = 4.526052468412802e-06lf + x * y;
    y = -1.9681771137349664e-05lf + x * y;
    y = 7.599527810221719e-05lf + x * y;
    y = -0.00021503011980256523lf + x * y;
    y = -0.00013871931838034567lf + x * y;
    y = 1.0103004648645448lf + x * y;
    y = 4.849906401408584lf + x * y;
    return y;
}

// @function lgamma_one_double
// lgamma(1 + e) / (e (e - 1)) for -0.3 <= e <= 0.5; error 2e-18
precise double lgamma_one_double(double x) {
    precise double y = 0.0054283966455931434lf;
    y = -0.018161636558206747lf + x * y;
    y = 0.02774326631566668lf + x * y;
    y = -0.028192330944683597lf + x * y;
    y = 0.02592508146627872lf + x * y;
    y = -0.02630280372095833lf + x * y;
    y = 0.028332718945359686lf + x * y;
    y = -0.030328716618042623lf + x * y;
    y = 0.03225634529042908lf + x * y;
    y = -0.0344425123733608lf + x * y;
    y = 0.036987288198098024lf + x * y;
    y = -0.0399428285646893lf + x * y;
    y = 0.04341098066185953lf + x * y;
    y = -0.04754314242677573lf + x * y;
    y = 0.05255632215961096lf + x * y;
    y = -0.05877794100212905lf + x * y;
    y = 0.06673172827094029lf + x * y;
    y = -0.0773181685367194lf + x * y;
    y = 0.09223900846458515lf + x * y;
    y = -0.1151465425638076lf + x * y;
    y = 0.15543426586395184lf + x * y;
    y = -0.2452513685225804lf + x * y;
    y = 0.5772156649015329lf + x * y;
    return y;
}

// @function lgamma_two_double
// lgamma(2 + e) / (e (e + 1)) for -0.5 <= e <= 1; error 3e-19
precise double lgamma_two_double(double x) {
    precise double y = 6.553681503756507e-10lf;
    y = -5.137281438824563e-09lf + x * y;
    y = 1.8979627704095772e-08lf + x * y;
    y = -4.6708936076567065e-08lf + x * y;
    y = 9.569299673447421e-08lf + x * y;
    y = -1.9262966754780493e-07lf + x * y;
    y = 4.0183642984248583e-07lf + x * y;
    y = -8.517044744252957e-07lf + x * y;
    y = 1.8083238831664818e-06lf + x * y;
    y = -3.847746126363096e-06lf + x * y;
    y = 8.222235565371324e-06lf + x * y;
    y = -1.7661605152121955e-05lf + x * y;
    y = 3.8168871698703404e-05lf + x * y;
    y = -8.309513290348915e-05lf + x * y;
    y = 0.00018255264138526377lf + x * y;
    y = -0.00040570739717990365lf + x * y;
    y = 0.000915376922103127lf + x * y;
    y = -0.0021081308339636912lf + x * y;
    y = 0.004998641164701862lf + x * y;
    y = -0.012384192193371205lf + x * y;
    y = 0.032965000621155774lf + x * y;
    y = -0.10031730167435392lf + x * y;
    y = 0.42278433509846713lf + x * y;
    return y;
}

// @function digamma_root_double
// digamma(x0 + e) / e for 1 <= x0 + e <= 2, x0 its root; error 3e-18
precise double digamma_root_double(double x) {
    precise double y = 0.00011881232908510335lf;
    y = -0.0002785074876883787lf + x * y;
    y = 0.0002805343686746867lf + x * y;
    y = -0.0002843132292526133lf + x * y;
    y = 0.0004717939701691318lf + x * y;
    y = -0.0007549229618596274lf + x * y;
    y = 0.0010901225234458578lf + x * y;
    y = -0.00157420216813665lf + x * y;
    y = 0.0023028895420557894lf + x * y;
    y = -0.0033700680515484165lf + x * y;
    y = 0.0049270580267742016lf + x * y;
    y = -0.007204519666511045lf + x * y;
    y = 0.010538769938576956lf + x * y;
    y = -0.015424766261277919lf + x * y;
    y = 0.02259764928437279lf + x * y;
    y = -0.03316112647814546lf + x * y;
    y = 0.048804288134436574lf + x * y;
    y = -0.07219956125611147lf + x * y;
    y = 0.1078240506916922lf + x * y;
    y = -0.16394270544241185lf + x * y;
    y = 0.2584997609556486lf + x * y;
    y = -0.4427631689835921lf + x * y;
    y = 0.9676722454476212lf + x * y;
    return y;
}

// @function digamma_three_double
// digamma(3 + e) for -1 <= e <= 1; error 2e-18
precise double digamma_three_double(double x) {
    precise double y = -2.0722454724131336e-11lf;
    y = 6.218811526831498e-11lf + x * y;
    y = -6.749345689248068e-11lf + x * y;
    y = 2.0269507176299237e-10lf + x * y;
    y = -9.068336793645203e-10lf + x * y;
    y = 2.7242742307479803e-09lf + x * y;
    y = -7.763545025251715e-09lf + x * y;
    y = 2.3351638439175582e-08lf + x * y;
    y = -7.06817711097889e-08lf + x * y;
    y = 2.1304958946184967e-07lf + x * y;
    y = -6.430259226267795e-07lf + x * y;
    y = 1.9459008352596906e-06lf + x * y;
    y = -5.9073563913857425e-06lf + x * y;
    y = 1.8012634635133646e-05lf + x * y;
    y = -5.526782573889967e-05lf + x * y;
    y = 0.00017110619691420163lf + x * y;
    y = -0.0005367773819515793lf + x * y;
    y = 0.0017180619845354134lf + x * y;
    y = -0.005677755143368817lf + x * y;
    y = 0.019823233711134862lf + x * y;
    y = -0.07705690315959429lf + x * y;
    y = 0.39493406684822646lf + x * y;
    y = 0.9227843350984671lf + x * y;
    return y;
}

// @function lgamma_one_float
// lgamma(1 + e) / (e (e - 1)) for -0.3 <= e <= 0.5; error 2e-09
precise float lgamma_one_float(float x) {
    precise float y = 0.0229102253;
    y = -0.05036209922 + x * y;
    y = 0.05810737296 + x * y;
    y = -0.05953004317 + x * y;
    y = 0.06629433203 + x * y;
    y = -0.07723032269 + x * y;
    y = 0.09225258323 + x * y;
    y = -0.1151493659 + x * y;
    y = 0.1554341143 + x * y;
    y = -0.2452513459 + x * y;
    y = 0.5772156652 + x * y;
    return y;
}

// @function lgamma_two_float
// lgamma(2 + e) / (e (e + 1)) for -0.5 <= e <= 1; error 7e-10
precise float lgamma_two_float(float x) {
    precise float y = 1.513913297e-05;
    y = -7.476426165e-05 + x * y;
    y = 0.0001930005907 + x * y;
    y = -0.0004146656265 + x * y;
    y = 0.0009148258852 + x * y;
    y = -0.002106095227 + x * y;
    y = 0.004998452871 + x * y;
    y = -0.01238435743 + x * y;
    y = 0.0329650175 + x * y;
    y = -0.1003172979 + x * y;
    y = 0.4227843349 + x * y;
    return y;
}

// @function digamma_root_float
// digamma(x0 + e) / e for 1 <= x0 + e <= 2, x0 its root; error 4e-09
precise float digamma_root_float(float x) {
    precise float y = 0.01090258867;
    y = -0.02055670967 + x * y;
    y = 0.02349120795 + x * y;
    y = -0.03198182698 + x * y;
    y = 0.04856383892 + x * y;
    y = -0.07231595482 + x * y;
    y = 0.107845236 + x * y;
    y = -0.1639380023 + x * y;
    y = 0.2584991547 + x * y;
    y = -0.4427632229 + x * y;
    y = 0.9676722481 + x * y;
    return y;
}

// @function digamma_three_float
// digamma(3 + e) for -1 <= e <= 1; error 3e-09
precise float digamma_three_float(float x) {
    precise float y = -8.078103842e-06;
    y = 2.457642845e-05 + x * y;
    y = -5.295732445e-05 + x * y;
    y = 0.0001641213687 + x * y;
    y = -0.0005378175697 + x * y;
    y = 0.001721206242 + x * y;
    y = -0.005677566736 + x * y;
    y = 0.01982266422 + x * y;
    y = -0.07705691263 + x * y;
    y = 0.3949340955 + x * y;
    y = 0.9227843351 + x * y;
    return y;
}
