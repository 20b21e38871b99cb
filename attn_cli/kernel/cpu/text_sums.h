/* Sums over the rows of each of some texts that lie side by side, n rows each; included by fused.c.

   sums[head, text, column] = the sum over the rows i of a text of x[head, i, column] * factors[i, column], or with
   `given` the sum of given[head, i] * factors[i, column] over the rows in which x is at least so large a share of that.
   Strides in floats, of sums in doubles. */
typedef struct {
    int64_t columns;
    const float *x;
    int64_t x_head, x_row, x_column;
    const float *factors;
    int64_t factor_row, factor_column;
    const float *given;  /* [h, rows], or NULL */
    const double *least; /* [texts, columns] */
    double *sums;        /* 0 at first */
    int64_t sums_head, sums_text;
} TextSum;

/* Sums of h heads and some texts, which threads share. */
typedef struct {
    int64_t h, texts, n, count;
    const TextSum *wanted; /* [count] */
    int64_t next;          /* 0 at first */
} TextSums;

size_t attn_text_sums_size(void) { return sizeof(TextSums) + sizeof(TextSum); }

/* One column of a text: four sums side by side, so that an addition needn't wait for the one before. */
static double sum_of_column(const float *x, int64_t x_row, const float *factors, int64_t factor_row, int64_t n) {
    double sums[4] = {0};
    for (int64_t i = 0; i < n; i++) sums[i & 3] += (double)x[i * x_row] * factors[i * factor_row];
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

/* Add the n rows of a text to a head's sums; x_column and factor_column are mostly constants at compile time. */
static inline __attribute__((always_inline)) void add_rows(
    const TextSum *t, int64_t head, int64_t text, int64_t rows, int64_t n, int64_t x_column, int64_t factor_column) {
    double *sums = t->sums + head * t->sums_head + text * t->sums_text;
    const float *x = t->x + head * t->x_head + text * n * t->x_row, *factors = t->factors + text * n * t->factor_row;
    if (t->given) {
        const float *given = t->given + head * rows + text * n;
        const double *least = t->least + text * t->columns;
        for (int64_t i = 0; i < n; i++, x += t->x_row, factors += t->factor_row)
            for (int64_t c = 0; c < t->columns; c++) {
                const double all = (double)given[i] * factors[c * factor_column];
                sums[c] += x[c * x_column] >= least[c] * all ? all : 0;
            }
    } else if (t->columns == 1)
        *sums = sum_of_column(x, t->x_row, factors, t->factor_row, n);
    else
        for (int64_t i = 0; i < n; i++, x += t->x_row, factors += t->factor_row)
            for (int64_t c = 0; c < t->columns; c++) sums[c] += (double)x[c * x_column] * factors[c * factor_column];
}

#define ADD_TEXT(NAME, TARGET)                                                                            \
    static TARGET void NAME(const TextSum *t, int64_t head, int64_t text, int64_t rows, int64_t n) {      \
        if (t->x_column == 1 && t->factor_column == 1) add_rows(t, head, text, rows, n, 1, 1);            \
        else if (t->x_column == 1 && t->factor_column == 0) add_rows(t, head, text, rows, n, 1, 0);       \
        else if (t->x_column == 0 && t->factor_column == 1) add_rows(t, head, text, rows, n, 0, 1);       \
        else add_rows(t, head, text, rows, n, t->x_column, t->factor_column);                             \
    }
ADD_TEXT(add_text_plain, )
#if defined(__x86_64__)
ADD_TEXT(add_text_avx2, __attribute__((target("avx2"))))
#endif

/* Do texts of heads until none is left: each is one thread's, which adds its rows in their order. */
static void add_texts(void *sums) {
    TextSums *t = sums;
    void (*add)(const TextSum *, int64_t, int64_t, int64_t, int64_t) = add_text_plain;
#if defined(__x86_64__)
    if (attn_fused_widest() > 0) add = add_text_avx2;
#endif
    for (;;) {
        const int64_t task = __atomic_fetch_add(&t->next, 1, __ATOMIC_RELAXED);
        if (task >= t->h * t->texts) return;
        for (int64_t each = 0; each < t->count; each++)
            add(t->wanted + each, task / t->texts, task % t->texts, t->texts * t->n, t->n);
    }
}

/* By this thread alone, or by a team of so many threads of an OpenMP, which `parallel` starts: GOMP_parallel. */
void attn_text_sums(TextSums *t, void (*parallel)(void (*)(void *), void *, unsigned, unsigned), unsigned threads) {
    if (parallel) parallel(add_texts, t, threads, 0);
    else add_texts(t);
}
