/* Scaled dot-product attention and what its readers ask of each row, in one pass over a few rows at a time.

   A task is a run of query rows of one head. Their scores against all keys that they may attend to are a product that
   stays in the second-level cache; there each row is turned into e^(score - maximum) and everything that anybody asked
   for is noted: its sum and moments, sums over some keys, its largest cells, column sums over the rows. A second
   product with the values, divided by the row's sum, is the output. Weights are never stored.

   Flash attention meets a row's keys block by block, and corrects its sum and output whenever the maximum grows. Here a
   row's scores are all there before its softmax, a few rows high: a processor's cache holds them, and whoever asks for
   the largest weights reads them once, finished.

   Query i may attend to keys first[i] .. last[i] - 1. Threads call attn_fused_work on one Attention at the same time,
   and share its tasks.

   This file has the arguments, the threads and their tasks. fused_tile.h has the arithmetic of some rows of one head,
   compiled once for each width of vectors. */

#include <math.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define ROWS 6        /* in a product */
#define MOST_ROWS 48  /* of a task at a time */
#define CACHE 262144  /* floats of scores that stay in the second-level cache: 1 MiB */
#define DEPTH 128     /* keys whose values are multiplied together: they stay in the first-level cache */
#define LOWEST -87.336544f /* e^x is no normal float below this */

/* h query heads over g key heads, h a multiple of g: query head x reads key head x / (h / g). n queries and m keys are
   d wide, values e wide. `_head` and `_row` are strides in floats; the numbers of a row lie one after the other.

   All memory is the caller's, and none is kept. What is noted starts at 0. */
typedef struct {
    int64_t h, g, n, m, d, e, q_head, q_row, k_head, k_row, v_head, v_row;
    int64_t output_head, output_row;
    int64_t key_sets, set_columns, vectors;
    int64_t count;                /* how many of the largest cells of a row are noted, the largest first */
    int64_t task_rows;            /* of a task */
    int64_t width_of_vectors;
    int64_t next_task, broken, no_memory; /* shared by the threads, 0 at first; broken: a score is NaN or infinite */
    float scale;
    const float *q, *k, *v;
    const int32_t *first, *last, *position; /* [n]; query i stands at key position[i] */
    const float *sink;                      /* [h] or NULL */
    float *panels;                          /* memory for the packed keys [g, m rounded up to 64, d] */
    int32_t *packed;                        /* [g]: 0 at first, 1 while a thread packs the keys of the head, then 2 */
    const int32_t *set_keys;    /* [n, set_columns]: keys of each row, set beside set; a set ends at its first -1 */
    const int32_t *set_ends;    /* [key_sets]: the column after each set */
    const float *vector_values; /* [vectors, m rounded up to 64] */
    float *output;              /* [h, n, e] or NULL */
    float *maximum, *logsumexp, *weight_sum, *entropy_nats, *distance; /* [h, n], or all NULL */
    float *key_sums;    /* [h, n, key_sets]: sums of a row's weights over sets of keys */
    float *vector_sums; /* [h, n, vectors]: and times vectors */
    int64_t *received;  /* [h, m] or NULL: column sums in units of 2^-32, so that the threads' order doesn't matter */
    float *top_weights, *top_scores; /* [h, n, count]; 0 and -infinity where there are fewer */
    int64_t *top_keys;               /* -1 where there are fewer */
} Attention;

/* One thread's memory for some rows: as many as stay in the cache with their scores, MOST_ROWS at most. */
typedef struct {
    float *scores;  /* [rows, width of the keys that one of them sees + LANES], then e^(score - maximum) */
    float *queries; /* [rows, d], scaled */
    float *output;  /* [rows, e], before it is divided by the sums */
    float *columns; /* [m, rounded up]: the sums of weights on each key over a task's rows */
    float *shares;  /* [rows]: 1 / sum of a row */
} Buffers;

/* m in whole panels, of any width of vectors. */
static int64_t padded_keys(const Attention *t) { return (t->m + 63) / 64 * 64; }

/* The packed keys of a query head. */
static const float *panels_of(const Attention *t, int64_t head) {
    return t->panels + head / (t->h / t->g) * padded_keys(t) * t->d;
}

#define INLINE inline TARGET __attribute__((always_inline))

#if defined(__x86_64__)
#include <immintrin.h>

#define NAMED(x) x##_avx512
#define TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")))
#define LARGER(a, b) _mm512_max_ps((__m512)(a), (__m512)(b))
#define ANY(mask) (_mm512_test_epi32_mask((__m512i)(mask), (__m512i)(mask)) != 0)
#define LANES 16
#define GROUPS 4
#include "fused_tile.h"

#define NAMED(x) x##_avx2
#define TARGET __attribute__((target("avx2,fma")))
#define LARGER(a, b) _mm256_max_ps((__m256)(a), (__m256)(b))
#define ANY(mask) (_mm256_movemask_epi8((__m256i)(mask)) != 0)
#define LANES 8
#define GROUPS 2
#include "fused_tile.h"
#endif

#define NAMED(x) x##_plain
#define TARGET
#define LARGER(a, b) NAMED(where)((a) > (b), a, b)
#define ANY(mask) NAMED(any)(mask)
#define LANES 4
#define GROUPS 4
#include "fused_tile.h"

/* The functions of fused_tile.h that threads call, whatever the width of vectors. */
typedef void (*Pack)(const Attention *, int64_t key_head);
typedef void (*Rows)(Attention *, int64_t head, int64_t start, int64_t stop, Buffers);

/* The widest vectors that this processor and the compiler know: 2 for AVX-512, 1 for AVX2, 0 for what every one has. */
int attn_fused_widest(void) {
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
        return 2;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return 1;
#endif
    return 0;
}

/* The size of the arguments, by which a caller sees whether it knows this version. */
size_t attn_fused_size(void) { return sizeof(Attention); }

/* Add a task's column sums to those of its head, and clear them. */
static void hand_over(Attention *t, int64_t head, float *columns) {
    for (int64_t j = 0; j < t->m; j++)
        if (columns[j] != 0)
            __atomic_fetch_add(t->received + head * t->m + j, llrint(columns[j] * 4294967296.0), __ATOMIC_RELAXED);
    memset(columns, 0, (size_t)t->m * sizeof(float));
}

/* Have the keys of a head packed, by this thread or another. */
static void pack_once(Attention *t, Pack pack, int64_t key_head) {
    int32_t *state = t->packed + key_head, none = 0;
    if (__atomic_compare_exchange_n(state, &none, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE)) {
        pack(t, key_head);
        __atomic_store_n(state, 2, __ATOMIC_RELEASE);
    }
    while (__atomic_load_n(state, __ATOMIC_ACQUIRE) < 2) sched_yield();
}

/* Do tasks of an Attention, runs of rows of one head, until none is left. */
void attn_fused_work(void *attention) {
    Attention *t = attention;
    Pack pack = pack_plain;
    Rows rows = rows_plain;
#if defined(__x86_64__)
    if (t->width_of_vectors == 2) pack = pack_avx512, rows = rows_avx512;
    if (t->width_of_vectors == 1) pack = pack_avx2, rows = rows_avx2;
#endif
    /* at_once: rows whose scores fit into the cache */
    const int64_t width = padded_keys(t), tasks_of_head = (t->n + t->task_rows - 1) / t->task_rows;
    int64_t at_once = CACHE / width / ROWS * ROWS;
    at_once = at_once < 12 ? 12 : at_once > MOST_ROWS ? MOST_ROWS : at_once;
    size_t floats = (size_t)(at_once * (width + 64 + t->d + t->e + 1) + width + 256);
    float *memory = aligned_alloc(64, (floats * sizeof(float) + 63) / 64 * 64);
    if (!memory) {
        __atomic_store_n(&t->no_memory, 1, __ATOMIC_RELAXED);
        return;
    }
    Buffers b = {memory, 0, 0, 0, 0};
    b.columns = b.scores + at_once * (width + 64);
    b.queries = b.columns + width;
    b.output = b.queries + at_once * t->d;
    b.shares = b.output + at_once * t->e;
    memset(b.columns, 0, (size_t)(width + at_once * t->d) * sizeof(float)); /* and queries: a tile may lack rows */
    int64_t task;
    while ((task = __atomic_fetch_add(&t->next_task, 1, __ATOMIC_RELAXED)) < t->h * tasks_of_head) {
        /* The last rows of a causal head see the most keys: they come first, and little is left for the end. */
        const int64_t head = task % t->h, begin = (tasks_of_head - 1 - task / t->h) * t->task_rows;
        const int64_t end = begin + t->task_rows < t->n ? begin + t->task_rows : t->n;
        pack_once(t, pack, head / (t->h / t->g));
        for (int64_t i = begin; i < end; i += at_once) rows(t, head, i, i + at_once < end ? i + at_once : end, b);
        if (t->received) hand_over(t, head, b.columns);
    }
    free(memory);
}
