/* Kernels of a Transformer in float32 for one core: linear maps, the best of many symbols with what is known of the
   others or alone, all layers of a pass, and of a step with a cache, in one call.

   Vectors are GCC's and Clang's own (8 floats; the compiler makes of them what the machine has), so that there is one
   text for all machines; on x86-64 it is compiled for AVX2 and FMA, and whoever loads it asks `usable` first.

   A matrix of weights (outputs, inputs) lies in panels of PANEL outputs: (outputs / PANEL, inputs, PANEL). A product
   then reads it once, from its beginning to its end, and a panel stays in the first cache for all rows. Every output is
   the same sum in the same order, however many rows there are: a result does not depend on the batch.

   Sizes are multiples of PANEL, widths of heads of 8: the caller has looked. Matrices are row by row. */

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#if defined(__x86_64__) && defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#elif defined(__x86_64__)
#pragma GCC target("avx2,fma")
#endif
#pragma GCC diagnostic ignored "-Wpsabi"

typedef float v8 __attribute__((vector_size(32)));
typedef int32_t i8 __attribute__((vector_size(32)));
typedef float anywhere __attribute__((vector_size(32), aligned(4), may_alias));
typedef int32_t numbers __attribute__((vector_size(32), aligned(4), may_alias));
typedef int64_t len;

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 8")
#define LOAD(from) ((v8)(*(const anywhere *)(from)))
#define NUMBERS(from) ((i8)(*(const numbers *)(from)))
#define STORE(to, x) (*(anywhere *)(to) = (x))
enum { VERSION = 4 }; /* of the functions and of what they take, as in library.py */
enum { PANEL = 16, TILE = 6 }; /* outputs of a panel, rows of a tile */
enum { ROWS = 120, STRETCH = 512 }; /* rows that go through all layers at once; symbols that are looked at together */

INLINE v8 all(float a) { return (v8){a, a, a, a, a, a, a, a}; }
INLINE float sum(v8 x) { return ((x[0] + x[4]) + (x[2] + x[6])) + ((x[1] + x[5]) + (x[3] + x[7])); }
INLINE v8 either(i8 where, v8 a, v8 b) { return (v8)((where & (i8)a) | (~where & (i8)b)); }
INLINE v8 larger(v8 a, v8 b) { return either(b > a, b, a); } /* a, where it is not a number */
INLINE v8 smaller(v8 a, v8 b) { return either(b < a, b, a); }
INLINE float largest(v8 x) {
    float out = x[0];
    for (int i = 1; i < 8; i++) out = x[i] > out ? x[i] : out;
    return out;
}

/* e^x = 2^n e^r with n the whole number nearest to x / ln 2, so that |r| <= ln 2 / 2, and e^r by its series. */
INLINE v8 power(v8 x) {
    x = larger(smaller(x, all(88.0f)), all(-87.0f));
    v8 shifted = x * all(1.44269504f) + all(12582912.0f), n = shifted - all(12582912.0f);
    v8 r = x - n * all(0.693359375f) + n * all(2.12194440e-4f), e = all(1.0f / 5040);
    e = e * r + all(1.0f / 720);
    e = e * r + all(1.0f / 120);
    e = e * r + all(1.0f / 24);
    e = e * r + all(1.0f / 6);
    e = e * r + all(0.5f);
    e = e * r + all(1.0f);
    e = e * r + all(1.0f);
    i8 exponent = (__builtin_convertvector(n, i8) + 127) << 23;
    return e * (v8)exponent;
}

/* x Phi(x), Phi by Abramowitz and Stegun 7.1.26: right to 1e-7. */
INLINE v8 gelu(v8 x) {
    v8 z = x * all(0.70710678f), a = larger(z, -z), t = all(1.0f) / (all(1.0f) + all(0.3275911f) * a);
    v8 tail = all(1.061405429f);
    tail = tail * t + all(-1.453152027f);
    tail = tail * t + all(1.421413741f);
    tail = tail * t + all(-0.284496736f);
    tail = tail * t + all(0.254829592f);
    tail = all(0.5f) * tail * t * power(-a * a); /* 1 - Phi(|x|) */
    return x * either(x < all(0.0f), tail, all(1.0f) - tail);
}

/* R rows times P panels, from the biases on. */
INLINE void tile(const int R, const int P, const float *x, len apart, const float *w, len inputs, const float *b, float *y,
                 len outputs) {
    v8 total[TILE][8];
    UNROLL for (int p = 0; p < 2 * P; p++) {
        UNROLL for (int r = 0; r < R; r++) total[r][p] = LOAD(b + 8 * p);
    }
    for (len k = 0; k < inputs; k++) {
        v8 weight[8];
        UNROLL for (int p = 0; p < P; p++) {
            weight[2 * p] = LOAD(w + (p * inputs + k) * PANEL);
            weight[2 * p + 1] = LOAD(w + (p * inputs + k) * PANEL + 8);
        }
        UNROLL for (int r = 0; r < R; r++) {
            v8 a = all(x[r * apart + k]);
            UNROLL for (int p = 0; p < 2 * P; p++) total[r][p] += a * weight[p];
        }
    }
    UNROLL for (int r = 0; r < R; r++) {
        UNROLL for (int p = 0; p < 2 * P; p++) STORE(y + r * outputs + 8 * p, total[r][p]);
    }
}

/* y = x w + b: rows of x begin `apart` from each other, those of y `outputs_apart`. */
int linear(const float *x, len apart, len rows, len inputs, const float *w, const float *b, len outputs, float *y,
            len outputs_apart) {
    len n = 0;
    if (rows == 1) /* several panels at once: one alone would wait for each sum */
        for (; n + 4 * PANEL <= outputs; n += 4 * PANEL) tile(1, 4, x, 0, w + n * inputs, inputs, b + n, y + n, 0);
    for (; n < outputs; n += PANEL) {
        const float *panel = w + n * inputs, *from = x;
        float *to = y + n;
        for (len left = rows, some; left; left -= some, from += some * apart, to += some * outputs_apart) {
            some = left >= 2 * TILE || left <= TILE ? left : (left + 1) / 2; /* the last two tiles are alike */
            switch (some) {
            case 1: tile(1, 1, from, apart, panel, inputs, b + n, to, outputs_apart); break;
            case 2: tile(2, 1, from, apart, panel, inputs, b + n, to, outputs_apart); break;
            case 3: tile(3, 1, from, apart, panel, inputs, b + n, to, outputs_apart); break;
            case 4: tile(4, 1, from, apart, panel, inputs, b + n, to, outputs_apart); break;
            case 5: tile(5, 1, from, apart, panel, inputs, b + n, to, outputs_apart); break;
            default: some = TILE, tile(TILE, 1, from, apart, panel, inputs, b + n, to, outputs_apart);
            }
        }
    }
    return 1;
}

/* Those of the numbers n … n + width that are larger than the last of the `most` largest so far are put among these, in
   order; of equal ones the first comes first. */
INLINE void among(const float *x, len n, len width, len most, len *which, float *value) {
    for (len j = 0; j < width; j += PANEL) {
        if (j % 64 == 0) { /* mostly, none of them is */
            v8 here = LOAD(x + j);
            for (len k = 8; k < 64 && j + k < width; k += 8) here = larger(here, LOAD(x + j + k));
            if (!(largest(here) > value[most - 1])) {
                j += 64 - PANEL;
                continue;
            }
        }
        for (len k = j; k < j + PANEL; k++) {
            len place = most - 1;
            if (!(x[k] > value[place])) continue;
            for (; place && value[place - 1] < x[k]; place--) value[place] = value[place - 1], which[place] = which[place - 1];
            value[place] = x[k], which[place] = n + k;
        }
    }
}

/* The most probable of the symbols whose logits are x w + b, its log p, log sum exp of the logits, and their entropy:
   (rows,) each. Logits of `banned` symbols (ascending) are `never`. With `now` (rows,) also log p of those symbols as if
   nothing were banned, `current`. With `several` > 0 also that many of the most probable symbols, the first first, and
   their log p: `which`, `each` (rows, several). Logits are looked at while they are in the cache, a stretch after the
   other: the sums of e^d and of d e^d, d = logit - top, are those of another top when a stretch has a larger one. Returns
   0 if there was no memory. */
int best(const float *x, len rows, len inputs, const float *w, const float *b, len outputs, const len *banned, len bans,
         float never, len several, len *token, float *logp, float *log_sum, float *entropy, const len *now, float *current,
         len *which, float *each) {
    float *logits = malloc(sizeof(float) * ROWS * (STRETCH + bans)), *lost = logits + ROWS * STRETCH;
    if (!logits) return 0;
    for (len first = 0; first < rows; first += ROWS) {
        len some = rows - first < ROWS ? rows - first : ROWS, ban = 0;
        float top[ROWS], total[ROWS], moment[ROWS];
        for (len r = 0; r < some; r++) top[r] = -INFINITY, total[r] = moment[r] = 0, token[first + r] = 0;
        for (len r = 0; now && r < some; r++) current[first + r] = -INFINITY; /* of a symbol that has no logit … */
        for (len i = 0; i < some * bans; i++) lost[i] = -INFINITY; /* … and of a ban of one */
        for (len i = first * several; i < (first + some) * several; i++) which[i] = 0, each[i] = -INFINITY;
        for (len n = 0; n < outputs; n += STRETCH) {
            len width = outputs - n < STRETCH ? outputs - n : STRETCH;
            linear(x + first * inputs, inputs, some, inputs, w + n * inputs, b + n, width, logits, width);
            for (len r = 0; now && r < some; r++)
                if (now[first + r] >= n && now[first + r] < n + width) current[first + r] = logits[r * width + now[first + r] - n];
            for (; ban < bans && banned[ban] < n + width; ban++)
                for (len r = 0; banned[ban] >= n && r < some; r++) {
                    float *logit = logits + r * width + banned[ban] - n;
                    lost[r * bans + ban] = *logit;
                    *logit = never;
                }
            for (len r = 0; r < some; r++) {
                const float *row = logits + r * width;
                v8 most = all(-INFINITY), sums = all(0.0f), moments = all(0.0f);
                for (len j = 0; j < width; j += 8) most = larger(most, LOAD(row + j));
                float here = largest(most);
                if (here > top[r]) {
                    if (n) { /* before the first stretch both are 0 */
                        moment[r] = (moment[r] + total[r] * (top[r] - here)) * expf(top[r] - here);
                        total[r] *= expf(top[r] - here);
                    }
                    top[r] = here;
                    len j = 0;
                    while (row[j] != here) j++;
                    token[first + r] = n + j;
                }
                for (len j = 0; j < width; j += 8) {
                    v8 d = LOAD(row + j) - all(top[r]), e = power(d);
                    sums += e;
                    moments += d * e;
                }
                total[r] += sum(sums);
                moment[r] += sum(moments);
                if (several) among(row, n, width, several, which + (first + r) * several, each + (first + r) * several);
            }
        }
        for (len r = 0; r < some; r++) {
            float log_total = logf(total[r]);
            logp[first + r] = -log_total;
            log_sum[first + r] = top[r] + log_total;
            entropy[first + r] = log_total - moment[r] / total[r];
            for (len i = (first + r) * several; i < (first + r + 1) * several; i++) each[i] = each[i] - top[r] - log_total;
            if (!now) continue;
            float most = top[r], whole = 0; /* what is allowed and what is banned, together */
            for (len i = 0; i < bans; i++) most = lost[r * bans + i] > most ? lost[r * bans + i] : most;
            for (len i = 0; i < bans; i++) whole += expf(lost[r * bans + i] - most);
            current[first + r] -= most + logf(whole + total[r] * expf(top[r] - most));
        }
    }
    free(logits);
    return 1;
}

/* The largest of the logits x w + b of each row, and the first symbol that has it. Returns 0 if there was no memory. */
static int highest(const float *x, len rows, len inputs, const float *w, const float *b, len outputs, len *token, float *top) {
    float *logits = malloc(sizeof(float) * ROWS * STRETCH);
    if (!logits) return 0;
    for (len first = 0; first < rows; first += ROWS) {
        len some = rows - first < ROWS ? rows - first : ROWS;
        for (len r = first; r < first + some; r++) token[r] = 0, top[r] = -INFINITY;
        for (len n = 0; n < outputs; n += STRETCH) {
            len width = outputs - n < STRETCH ? outputs - n : STRETCH;
            linear(x + first * inputs, inputs, some, inputs, w + n * inputs, b + n, width, logits, width);
            for (len r = 0; r < some; r++)
                for (len j = 0; j < width; j++)
                    if (logits[r * width + j] > top[first + r]) top[first + r] = logits[r * width + j], token[first + r] = n + j;
        }
    }
    free(logits);
    return 1;
}

/* Weights as whole numbers of steps, w = step q + rest with |q| <= HALF - 1: q in panels (outputs / PANEL, inputs / 4,
   PANEL, 4), and (outputs) each the step, |w|, |rest| and HALF times the sum of q. */
typedef struct {
    const int8_t *q;
    const float *step, *size, *lost;
    const int32_t *half;
} whole;

enum { HALF = 64, DOUBTS = 128 }; /* symbols of a row that there is room for while they may be the best */
enum { SOME = 60, FOUR = 4 }; /* rows that are looked at together, rows of a tile of whole numbers */
enum { BLOCK = 24, WIDEST = 4096 }; /* rows that a map in whole numbers rounds together, inputs that they may have */

/* Biases with which a banned symbol is never the best. NULL if there was no memory. */
static float *allowed(const float *b, len outputs, const len *banned, len bans) {
    float *bias = malloc(sizeof(float) * outputs);
    if (!bias) return NULL;
    memcpy(bias, b, sizeof(float) * outputs);
    for (len i = 0; i < bans; i++)
        if (banned[i] >= 0 && banned[i] < outputs) bias[banned[i]] = -1e30f;
    return bias;
}

#if defined(__x86_64__)
/* R rows of bytes times a panel of whole numbers; inputs are a multiple of 8. Four products of a byte and a weight,
   127 * 63 each at most, fit into 16 bits. */
INLINE void whole_tile(const int R, const uint8_t *x, len inputs, const int8_t *q, i8 (*y)[2]) {
    const __m256i ones = _mm256_set1_epi16(1);
    __m256i total[FOUR][2];
    UNROLL for (int r = 0; r < R; r++) total[r][0] = total[r][1] = _mm256_setzero_si256();
    for (len k = 0; k < inputs; k += 8, q += 8 * PANEL) {
        const __m256i *w = (const __m256i *)q;
        UNROLL for (int r = 0; r < R; r++) {
            int32_t four[2];
            memcpy(four, x + r * inputs + k, 8);
            __m256i a = _mm256_set1_epi32(four[0]), b = _mm256_set1_epi32(four[1]);
            UNROLL for (int p = 0; p < 2; p++) {
                __m256i both = _mm256_add_epi16(_mm256_maddubs_epi16(a, _mm256_loadu_si256(w + p)),
                                                _mm256_maddubs_epi16(b, _mm256_loadu_si256(w + 2 + p)));
                total[r][p] = _mm256_add_epi32(total[r][p], _mm256_madd_epi16(both, ones));
            }
        }
    }
    UNROLL for (int r = 0; r < R; r++) y[r][0] = (i8)total[r][0], y[r][1] = (i8)total[r][1];
}


static int dots; /* has the machine one instruction for four products of bytes and their sum? `usable` asks */

/* The same with it: the sums are exact, so they are the same. */
__attribute__((noinline, target("avx512vnni,avx512vl"))) static void four_rows_by_dots(const uint8_t *x, len inputs,
                                                                                       const int8_t *q, i8 (*y)[2]) {
    __m256i total[2][FOUR][2]; /* of even and of odd fours of inputs: sums do not wait for each other */
    UNROLL for (int r = 0; r < FOUR; r++)
        total[0][r][0] = total[0][r][1] = total[1][r][0] = total[1][r][1] = _mm256_setzero_si256();
    for (len k = 0; k < inputs; k += 8, q += 8 * PANEL) {
        UNROLL for (int half = 0; half < 2; half++) {
            const __m256i *w = (const __m256i *)q + 2 * half;
            __m256i low = _mm256_loadu_si256(w), high = _mm256_loadu_si256(w + 1);
            UNROLL for (int r = 0; r < FOUR; r++) {
                int32_t four;
                memcpy(&four, x + r * inputs + k + 4 * half, 4);
                __m256i a = _mm256_set1_epi32(four);
                total[half][r][0] = _mm256_dpbusd_epi32(total[half][r][0], a, low);
                total[half][r][1] = _mm256_dpbusd_epi32(total[half][r][1], a, high);
            }
        }
    }
    UNROLL for (int r = 0; r < FOUR; r++)
        UNROLL for (int p = 0; p < 2; p++) y[r][p] = (i8)_mm256_add_epi32(total[0][r][p], total[1][r][p]);
}
#else
INLINE void whole_tile(const int R, const uint8_t *x, len inputs, const int8_t *q, i8 (*y)[2]) {
    int32_t total[FOUR][PANEL] = {{0}};
    for (len k = 0; k < inputs; k += 4, q += 4 * PANEL)
        for (int r = 0; r < R; r++)
            for (int n = 0; n < 4 * PANEL; n++) total[r][n / 4] += x[r * inputs + k + n % 4] * q[n];
    memcpy(y, total, sizeof(int32_t) * R * PANEL);
}
#endif

/* Functions of their own: sums stay in registers. */
static __attribute__((noinline)) void four_rows(const uint8_t *x, len inputs, const int8_t *q, i8 (*y)[2]) {
#if defined(__x86_64__)
    if (dots) {
        four_rows_by_dots(x, inputs, q, y);
        return;
    }
#endif
    whole_tile(FOUR, x, inputs, q, y);
}
static __attribute__((noinline)) void one_row(const uint8_t *x, len inputs, const int8_t *q, i8 (*y)[2]) {
    whole_tile(1, x, inputs, q, y);
}

/* A row as whole numbers of steps, HALF more than they are, in bytes: its step, which is no number if one of the row is
   none. */
INLINE float stepped(const float *x, len inputs, uint8_t *q) {
    typedef uint8_t bytes __attribute__((vector_size(8)));
    v8 top = all(0.0f), none = all(0.0f);
    for (len k = 0; k < inputs; k += 8) {
        v8 a = LOAD(x + k);
        top = larger(top, larger(a, -a)), none += a * all(0.0f);
    }
    float most = largest(top), step = most > 1e-15f ? most / (HALF - 1) : 1; /* next to nothing is nothing */
    for (len k = 0; k < inputs; k += 8) {
        v8 shifted = LOAD(x + k) * all(1 / step) + all(12582912.0f + HALF); /* the nearest whole number is its last bits */
        bytes here = __builtin_convertvector((i8)shifted & 127, bytes);
        memcpy(q + k, &here, 8);
    }
    return step + sum(none);
}

/* y = x w + b in whole numbers, of outputs from `from` on: rows of x and weights as numbers of steps, and what is between
   two steps left out. Sums are exact. Inputs are a multiple of 8, and not more than WIDEST. */
int rounded(const float *x, len rows, len inputs, const whole *w, len from, const float *b, len outputs, float *y,
            len outputs_apart) {
    uint8_t q[BLOCK * WIDEST];
    for (len first = 0; first < rows; first += BLOCK, x += BLOCK * inputs, y += BLOCK * outputs_apart) {
        len some = rows - first < BLOCK ? rows - first : BLOCK;
        float step[BLOCK];
        for (len r = 0; r < some; r++) step[r] = stepped(x + r * inputs, inputs, q + r * inputs);
        for (len n = 0; n < outputs; n += PANEL)
            for (len r = 0, width; r < some; r += width) {
                i8 total[FOUR][2];
                width = some - r < FOUR ? 1 : FOUR;
                (width == 1 ? one_row : four_rows)(q + r * inputs, inputs, w->q + (from + n) * inputs, total);
                for (len k = 0; k < width; k++)
                    UNROLL for (int p = 0; p < 2; p++) {
                        len at = from + n + 8 * p;
                        v8 sums = __builtin_convertvector(total[k][p] - NUMBERS(w->half + at), v8);
                        STORE(y + (r + k) * outputs_apart + n + 8 * p,
                              sums * (LOAD(w->step + at) * all(step[r + k])) + LOAD(b + at));
                    }
            }
    }
    return 1;
}

#if defined(__x86_64__)
typedef struct {
    float step, lost, size; /* x = step q + rest: the step, |rest| and what sums in float32 lose, |step q| */
    float least; /* the best logit is not below this */
    int doubts; /* symbols that may be the best: so many; beyond DOUBTS there was no room */
    int32_t symbol[DOUBTS];
    float most[DOUBTS]; /* what their logits are at the most */
} seen;

/* A row as whole numbers, HALF more than they are, in bytes. */
static void in_steps(const float *x, len inputs, float lost, uint8_t *q, seen *row) {
    float top = 0;
    double rest = 0, size = 0, square = 0;
    for (len k = 0; k < inputs; k++) top = fabsf(x[k]) > top ? fabsf(x[k]) : top;
    float step = top > 1e-15f ? top / (HALF - 1) : 1; /* of next to nothing, all is rest */
    for (len k = 0; k < inputs; k++) {
        int here = (int)lrintf(x[k] / step);
        double left = x[k] - step * here, value = x[k];
        q[k] = (uint8_t)(here + HALF);
        rest += left * left, size += here * here, square += value * value;
    }
    row->step = step, row->least = -INFINITY, row->doubts = 0;
    row->lost = (float)(sqrt(rest) * 1.0001 + lost * sqrt(square)), row->size = (float)(step * sqrt(size) * 1.0001);
}

/* One more symbol may be the best. Those that no longer can be are dropped for want of room. */
static void doubt(seen *row, len symbol, float most) {
    if (row->doubts == DOUBTS) {
        int left = 0;
        for (int d = 0; d < DOUBTS; d++)
            if (row->most[d] >= row->least) row->symbol[left] = row->symbol[d], row->most[left++] = row->most[d];
        row->doubts = left < DOUBTS ? left : DOUBTS + 1;
    }
    if (row->doubts < DOUBTS) row->symbol[row->doubts] = (int32_t)symbol, row->most[row->doubts++] = most;
}

/* R rows and the symbols n … n + width: which of them may be the best? With x = x' + dx and w = w' + dw, x' and w' whole
   numbers of steps, |x w - x' w'| <= |dx| |w| + |x'| |dw|. */
INLINE void compared(const int R, seen *row, const uint8_t *x, len inputs, const whole *w, const float *b, len n, len width,
                     float lost) {
    v8 low[FOUR], high[FOUR];
    float upper[FOUR][STRETCH];
    UNROLL for (int r = 0; r < R; r++) low[r] = high[r] = all(-INFINITY);
    for (len j = 0; j < width; j += PANEL) {
        i8 total[FOUR][2];
        (R == 1 ? one_row : four_rows)(x, inputs, w->q + (n + j) * inputs, total);
        UNROLL for (int p = 0; p < 2; p++) {
            len at = n + j + 8 * p;
            i8 half = NUMBERS(w->half + at);
            v8 step = LOAD(w->step + at), size = LOAD(w->size + at), rest = LOAD(w->lost + at), bias = LOAD(b + at);
            UNROLL for (int r = 0; r < R; r++) {
                v8 about = __builtin_convertvector(total[r][p] - half, v8) * (step * all(row[r].step)) + bias;
                v8 rounded = (v8)_mm256_andnot_ps(_mm256_set1_ps(-0.0f), (__m256)about) * all(lost);
                v8 by = all(row[r].lost) * size + all(row[r].size) * rest + rounded, most = about + by;
                low[r] = (v8)_mm256_max_ps((__m256)low[r], (__m256)(about - by));
                high[r] = (v8)_mm256_max_ps((__m256)high[r], (__m256)most);
                STORE(upper[r] + j + 8 * p, most);
            }
        }
    }
    for (int r = 0; r < R; r++, row++) {
        float least = largest(low[r]);
        row->least = least > row->least ? least : row->least;
        if (largest(high[r]) < row->least) continue;
        for (len j = 0; j < width; j++)
            if (upper[r][j] >= row->least) doubt(row, n + j, upper[r][j]);
    }
}

/* The most probable of the symbols whose logits are x w + b, and its logit, (rows,) each: the same as `best` says, to the
   last bit. Few symbols come into question, and bounds from whole numbers tell which: only those are computed. Where
   they cannot tell, all are. Symbols that are `banned` are none. Inputs are a multiple of 8. Returns 0 if there was no
   memory. */
int likeliest(const float *x, len rows, len inputs, const float *w, const float *b, len outputs, const whole *steps,
              const len *banned, len bans, len *token, float *top) {
    float *bias = allowed(b, outputs, banned, bans), lost = (float)(inputs + 16) / (1 << 23);
    uint8_t *q = malloc(SOME * inputs);
    int done = bias && q;
    for (len first = 0; first < rows && done; first += SOME) {
        len some = rows - first < SOME ? rows - first : SOME;
        const float *from = x + first * inputs;
        seen row[SOME];
        for (len r = 0; r < some; r++) in_steps(from + r * inputs, inputs, lost, q + r * inputs, row + r);
        for (len n = 0; n < outputs; n += STRETCH) {
            len r = 0, width = outputs - n < STRETCH ? outputs - n : STRETCH;
            for (; r + FOUR <= some; r += FOUR) compared(FOUR, row + r, q + r * inputs, inputs, steps, bias, n, width, lost);
            for (; r < some; r++) compared(1, row + r, q + r * inputs, inputs, steps, bias, n, width, lost);
        }
        for (len r = 0; r < some; r++, from += inputs) {
            float panel[PANEL], most = -INFINITY;
            len laid = -1, best = 0;
            for (int d = 0; d < row[r].doubts && row[r].doubts <= DOUBTS; d++) {
                len symbol = row[r].symbol[d], at = symbol / PANEL * PANEL;
                if (row[r].most[d] < row[r].least) continue;
                if (at != laid) tile(1, 1, from, 0, w + at * inputs, inputs, bias + at, panel, 0);
                laid = at;
                if (panel[symbol - at] > most) most = panel[symbol - at], best = symbol;
            }
            token[first + r] = best, top[first + r] = most;
            if (!(most > -INFINITY)) /* no bounds: too many in doubt, or no numbers */
                done &= highest(from, 1, inputs, w, bias, outputs, token + first + r, top + first + r);
        }
    }
    free(bias);
    free(q);
    return done;
}
#else /* whole numbers are no faster without instructions for them */
int likeliest(const float *x, len rows, len inputs, const float *w, const float *b, len outputs, const whole *steps,
              const len *banned, len bans, len *token, float *top) {
    float *bias = allowed(b, outputs, banned, bans);
    (void)steps;
    int done = bias && highest(x, rows, inputs, w, bias, outputs, token, top);
    free(bias);
    return done;
}
#endif

/* Layer norm of one row. */
INLINE void norm(const float *x, const float *scale, const float *shift, float eps, len dim, float *y) {
    v8 total = all(0.0f), squares = all(0.0f);
    for (len i = 0; i < dim; i += 8) total += LOAD(x + i);
    v8 mean = all(sum(total) / dim);
    for (len i = 0; i < dim; i += 8) {
        v8 d = LOAD(x + i) - mean;
        squares += d * d;
    }
    v8 by = all(1.0f / sqrtf(sum(squares) / dim + eps));
    for (len i = 0; i < dim; i += 8) STORE(y + i, (LOAD(x + i) - mean) * by * LOAD(scale + i) + LOAD(shift + i));
}

/* B vectors of sum_j p_j v_j. */
INLINE void weighted(const int B, const float *p, const float *v, len apart, len sees, float *y) {
    v8 total[6];
    UNROLL for (int b = 0; b < B; b++) total[b] = all(0.0f);
    for (len j = 0; j < sees; j++) {
        UNROLL for (int b = 0; b < B; b++) total[b] += all(p[j]) * LOAD(v + j * apart + 8 * b);
    }
    UNROLL for (int b = 0; b < B; b++) STORE(y + 8 * b, total[b]);
}

/* p, scores of one query before they are divided by sqrt(width), becomes its weights: of `sees` columns, of which `seen`
   are (NULL: all). There is room up to a multiple of 8. */
INLINE void soften(float *p, len sees, const uint8_t *seen, len width) {
    v8 scale = all(1.0f / sqrtf((float)width)), top = all(-INFINITY), total = all(0.0f);
    for (len j = 0; seen && j < sees; j++) p[j] = seen[j] ? p[j] : -INFINITY;
    for (len j = sees; j % 8; j++) p[j] = -INFINITY;
    for (len j = 0; j < sees; j += 8) top = larger(top, LOAD(p + j));
    v8 most = all(largest(top));
    for (len j = 0; j < sees; j += 8) {
        v8 s = LOAD(p + j), e = either(s == all(-INFINITY), all(0.0f), power((s - most) * scale));
        STORE(p + j, e);
        total += e;
    }
    float whole = sum(total);
    v8 by = all(whole > 0 || whole != whole ? 1.0f / whole : 0.0f); /* who sees nothing attends to nothing */
    for (len j = 0; j < sees; j += 8) STORE(p + j, LOAD(p + j) * by);
}

/* y = sum_j p_j v_j. */
INLINE void weigh(const float *p, const float *v, len apart, len sees, len width, float *y) {
    len i = 0;
    for (; i + 48 <= width; i += 48) weighted(6, p, v + i, apart, sees, y + i);
    for (; i + 32 <= width; i += 32) weighted(4, p, v + i, apart, sees, y + i);
    for (; i + 8 <= width; i += 8) weighted(1, p, v + i, apart, sees, y + i);
}

/* softmax(q k / sqrt(width)) v of one query; p is room for scores. */
INLINE void attend(const float *q, const float *k, const float *v, len apart, len sees, const uint8_t *seen, len width,
                   float *p, float *y) {
    for (len j = 0; j < sees; j++) {
        v8 dot = all(0.0f);
        for (len i = 0; i < width; i += 8) dot += LOAD(q + i) * LOAD(k + j * apart + i);
        p[j] = sum(dot);
    }
    soften(p, sees, seen, width);
    weigh(p, v, apart, sees, width, y);
}

/* B vectors of scores, from keys that lie across: (width, columns). */
INLINE void scored(const int B, const float *q, const float *across, len columns, len width, float *p) {
    v8 total[4];
    UNROLL for (int b = 0; b < B; b++) total[b] = all(0.0f);
    for (len i = 0; i < width; i++) {
        UNROLL for (int b = 0; b < B; b++) total[b] += all(q[i]) * LOAD(across + i * columns + 8 * b);
    }
    UNROLL for (int b = 0; b < B; b++) STORE(p + 8 * b, total[b]);
}

/* The same of several queries over the same keys, which are laid across first, so that no score is a sum of its own.
   Query c sees seen[places[c] * seen_apart …] (places NULL: c). `across` is room for width * sees, with sees rounded up
   to a multiple of 8. */
static void attend_all(const float *q, len q_apart, len queries, const float *k, const float *v, len apart, len sees,
                       const uint8_t *seen, len seen_apart, const len *places, len width, float *across, float *p,
                       float *y, len y_apart) {
    len columns = (sees + 7) / 8 * 8;
    for (len i = 0; i < width; i++) {
        for (len j = 0; j < sees; j++) across[i * columns + j] = k[j * apart + i];
        for (len j = sees; j < columns; j++) across[i * columns + j] = 0;
    }
    for (len c = 0; c < queries; c++, q += q_apart, y += y_apart) {
        len j = 0;
        for (; j + 32 <= columns; j += 32) scored(4, q, across + j, columns, width, p + j);
        for (; j + 16 <= columns; j += 16) scored(2, q, across + j, columns, width, p + j);
        for (; j < columns; j += 8) scored(1, q, across + j, columns, width, p + j);
        soften(p, sees, seen ? seen + (places ? places[c] : c) * seen_apart : NULL, width);
        weigh(p, v, apart, sees, width, y);
    }
}

/* The next keys and values are on their way while the ones at hand are looked at. */
INLINE void fetch(const float *k, const float *v, len n) {
    for (len i = 0; i < n; i += 16) __builtin_prefetch(k + i), __builtin_prefetch(v + i);
}

typedef struct {
    const float *weight, *bias;
    const whole *steps;
} pair; /* of a linear map in panels, or with `steps` in whole numbers; or scale and shift of a norm */

typedef struct {
    pair qkv, out, norm, cross_q, cross_out, cross_norm, widen, narrow, ffn_norm;
} layer; /* without cross-attention its three are not looked at */

typedef struct {
    const layer *layers;
    len count, dim, heads, ffn, post;
    double eps;
} stack;

typedef struct {
    float *whole; /* (layers, 2, rows, heads, columns, width): keys and values */
    len layer, half, row, head; /* how far apart those of two layers … begin */
} kept;

typedef struct {
    float *h, *wide, *y; /* (rows, dim), (rows, 3 dim or ffn), (rows, dim) */
    float *p, *across; /* scores of one query, keys of one head */
} room;

static room reserve(const stack *s, len rows, len columns) {
    len wide = 3 * s->dim > s->ffn ? 3 * s->dim : s->ffn;
    len all_rows = rows * (2 * s->dim + wide), room_for = columns + 8;
    float *at = malloc(sizeof(float) * (all_rows + room_for * (1 + s->dim / s->heads)));
    return (room){at, at + rows * s->dim, at + rows * (s->dim + wide), at + all_rows, at + all_rows + room_for};
}

/* Outputs of a map from `from` on. */
static void part(pair m, len from, const float *x, len rows, len inputs, len outputs, float *y, len outputs_apart) {
    if (m.steps)
        rounded(x, rows, inputs, m.steps, from, m.bias, outputs, y, outputs_apart);
    else
        linear(x, inputs, rows, inputs, m.weight + from * inputs, m.bias + from, outputs, y, outputs_apart);
}

static void map(pair m, const float *x, len rows, len inputs, len outputs, float *y) {
    part(m, 0, x, rows, inputs, outputs, y, outputs);
}

/* What a sub-layer is given: x in a "post" model, norm(x) in a "pre" one. */
static const float *given(const stack *s, pair n, const float *x, len rows, float *h) {
    if (s->post) return x;
    for (len r = 0; r < rows; r++) norm(x + r * s->dim, n.weight, n.bias, (float)s->eps, s->dim, h + r * s->dim);
    return h;
}

/* x becomes the residual sum of x and a sub-layer's output y, with the norm after it in a "post" model. */
static void residual(const stack *s, pair n, float *x, const float *y, len rows) {
    for (len i = 0; i < rows * s->dim; i += 8) STORE(x + i, LOAD(x + i) + LOAD(y + i));
    if (s->post)
        for (len r = 0; r < rows; r++) norm(x + r * s->dim, n.weight, n.bias, (float)s->eps, s->dim, x + r * s->dim);
}

static void feed_forward(const stack *s, const layer *l, float *x, len rows, room o) {
    map(l->widen, given(s, l->ffn_norm, x, rows, o.h), rows, s->dim, s->ffn, o.wide);
    for (len i = 0; i < rows * s->ffn; i += 8) STORE(o.wide + i, gelu(LOAD(o.wide + i)));
    map(l->narrow, o.wide, rows, s->ffn, s->dim, o.y);
    residual(s, l->ffn_norm, x, o.y, rows);
}

/* Attention of queries, all heads of them, to layer i of row n of a memory. */
static void look_up(const stack *s, len i, const kept *memory, len n, const uint8_t *real, len sources, const float *q,
                    len queries, room o, float *y) {
    len width = s->dim / s->heads, sees = sources;
    if (real) {
        real += n * sources;
        while (sees > 1 && !real[sees - 1]) sees--;
    }
    for (len h = 0; h < s->heads; h++, q += width, y += width) {
        const float *k = memory->whole + i * memory->layer + n * memory->row + h * memory->head, *v = k + memory->half;
        fetch(k + memory->head, v + memory->head, sees * width);
        if (queries == 1)
            attend(q, k, v, width, sees, real, width, o.p, y);
        else
            attend_all(q, s->dim, queries, k, v, width, sees, real, 0, NULL, width, o.across, o.p, y, s->dim);
    }
}

/* One further column of a causal decoder: x (rows, dim), embedded symbols at `places` (rows), becomes their states.
   `real` (rows, sources) says which columns of the memory are; NULL: all are. Returns 0 if there was no memory. */
int column(const stack *s, float *x, len rows, const len *places, const kept *cache, const kept *memory,
           const uint8_t *real, len sources) {
    len width = s->dim / s->heads, longest = sources;
    for (len n = 0; n < rows; n++) longest = places[n] + 1 > longest ? places[n] + 1 : longest;
    room o = reserve(s, rows < ROWS ? rows : ROWS, longest);
    if (!o.h) return 0;
    for (len first = 0; first < rows; first += ROWS) {
        len some = rows - first < ROWS ? rows - first : ROWS;
        float *here = x + first * s->dim;
        for (len i = 0; i < s->count; i++) {
            const layer *l = s->layers + i;
            map(l->qkv, given(s, l->norm, here, some, o.h), some, s->dim, 3 * s->dim, o.wide);
            for (len n = 0; n < some; n++)
                for (len h = 0; h < s->heads; h++) {
                    len place = places[first + n];
                    const float *q = o.wide + n * 3 * s->dim + h * width;
                    float *k = cache->whole + i * cache->layer + (first + n) * cache->row + h * cache->head;
                    float *v = k + cache->half;
                    memcpy(k + place * width, q + s->dim, sizeof(float) * width);
                    memcpy(v + place * width, q + 2 * s->dim, sizeof(float) * width);
                    fetch(k + cache->head, v + cache->head, (place + 1) * width);
                    attend(q, k, v, width, place + 1, NULL, width, o.p, o.h + n * s->dim + h * width);
                }
            map(l->out, o.h, some, s->dim, s->dim, o.y);
            residual(s, l->norm, here, o.y, some);
            map(l->cross_q, given(s, l->cross_norm, here, some, o.h), some, s->dim, s->dim, o.wide);
            for (len n = 0; n < some; n++)
                look_up(s, i, memory, first + n, real, sources, o.wide + n * s->dim, 1, o, o.h + n * s->dim);
            map(l->cross_out, o.h, some, s->dim, s->dim, o.y);
            residual(s, l->cross_norm, here, o.y, some);
            feed_forward(s, l, here, some, o);
        }
    }
    free(o.h);
    return 1;
}

/* Texts through all layers, one after the other: x (rows, dim), embedded symbols, becomes their states. Rows of text t
   are ends[t - 1] … ends[t]; those of texts from `text` to `texts` are run. A symbol sees all of its own text, or those
   that `sight` says, (texts, queries, columns) with any steps between texts and between queries; and in a decoder the
   memory of its text, of which `real` (texts, sources) says what is.

   With `columns` (texts, wanted), not more than a text has, states of those are put into `out` (texts, wanted, dim), and the last layer computes no
   others. Returns 0 if there was no memory. */
int run(const stack *s, float *x, const len *ends, len text, len texts, const uint8_t *sight, len sight_text,
        len sight_query, const kept *memory, const uint8_t *real, len sources, const len *columns, len wanted, float *out) {
    len width = s->dim / s->heads, begin = text ? ends[text - 1] : 0, longest = 0, most = ROWS;
    for (len t = text, last = begin; t < texts; last = ends[t++]) longest = ends[t] - last > longest ? ends[t] - last : longest;
    most = longest > most ? longest : most;
    room o = reserve(s, most, longest > sources ? longest : sources);
    if (!o.h) return 0;
    for (len t = text, first = begin; t < texts;) {
        len from = t, last = first;
        while (t < texts && ends[t] - first <= most) last = ends[t++]; /* whole texts, as many as there is room for */
        len some = last - first;
        float *here = x + first * s->dim;
        for (len i = 0; i < s->count; i++) {
            const layer *l = s->layers + i;
            int chosen = columns && i == s->count - 1;
            len asked = chosen ? (t - from) * wanted : some; /* rows that go on */
            float *on = chosen ? out + from * wanted * s->dim : here;
            const float *h = given(s, l->norm, here, some, o.h), *q = o.wide;
            if (chosen) {
                part(l->qkv, s->dim, h, some, s->dim, 2 * s->dim, o.wide + s->dim, 3 * s->dim);
                for (len r = 0; r < asked; r++) {
                    len u = from + r / wanted, start = u ? ends[u - 1] : 0;
                    memcpy(on + r * s->dim, x + (start + columns[u * wanted + r % wanted]) * s->dim, sizeof(float) * s->dim);
                }
                map(l->qkv, given(s, l->norm, on, asked, o.h), asked, s->dim, s->dim, o.y);
                q = o.y;
            } else
                map(l->qkv, h, some, s->dim, 3 * s->dim, o.wide);
            len step = chosen ? s->dim : 3 * s->dim;
            for (len u = from, at = first, r = 0; u < t; at = ends[u++]) {
                len size = ends[u] - at, queries = chosen ? wanted : size;
                for (len k = 0; k < s->heads; k++) {
                    const float *keys = o.wide + (at - first) * 3 * s->dim + s->dim + k * width;
                    attend_all(q + r * step + k * width, step, queries, keys, keys + s->dim, 3 * s->dim, size,
                               sight ? sight + u * sight_text : NULL, sight_query, chosen ? columns + u * wanted : NULL,
                               width, o.across, o.p, o.h + r * s->dim + k * width, s->dim);
                }
                r += queries;
            }
            map(l->out, o.h, asked, s->dim, s->dim, o.y);
            residual(s, l->norm, on, o.y, asked);
            if (memory) {
                map(l->cross_q, given(s, l->cross_norm, on, asked, o.h), asked, s->dim, s->dim, o.wide);
                for (len u = from, at = first, r = 0; u < t; at = ends[u++]) {
                    len queries = chosen ? wanted : ends[u] - at;
                    look_up(s, i, memory, u, real, sources, o.wide + r * s->dim, queries, o, o.h + r * s->dim);
                    r += queries;
                }
                map(l->cross_out, o.h, asked, s->dim, s->dim, o.y);
                residual(s, l->cross_norm, on, o.y, asked);
            }
            feed_forward(s, l, on, asked, o);
        }
        first = last;
    }
    free(o.h);
    return 1;
}

/* Keys and values of an encoder's states x (rows, columns, dim) for each layer of a decoder, by its own linear map to
   (2, dim): whole (layers, 2, rows, heads, columns, width). Returns 0 if there was no memory. */
int remember(const pair *maps, len count, const float *x, len rows, len columns, len dim, len heads, float *whole) {
    len width = dim / heads;
    float *both = malloc(sizeof(float) * ROWS * 2 * dim);
    if (!both) return 0;
    for (len first = 0; first < rows * columns; first += ROWS) {
        len some = rows * columns - first < ROWS ? rows * columns - first : ROWS;
        for (len i = 0; i < count; i++) {
            map(maps[i], x + first * dim, some, dim, 2 * dim, both);
            for (len t = 0; t < some; t++)
                for (len h = 0; h < 2 * heads; h++) { /* heads of keys, then of values */
                    len n = (first + t) / columns, j = (first + t) % columns;
                    len half = ((i * 2 + h / heads) * rows + n) * heads + h % heads;
                    memcpy(whole + (half * columns + j) * width, both + (t * 2 * heads + h) * width, sizeof(float) * width);
                }
        }
    }
    free(both);
    return 1;
}

#if defined(__x86_64__) && defined(__clang__)
#pragma clang attribute pop
#endif

/* Is this what the caller knows, and has this machine the instructions that it was compiled to? */
int usable(len version) {
#if defined(__x86_64__)
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return 0;
    dots = __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512vl");
#endif
    return version == VERSION;
}
