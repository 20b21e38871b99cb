/* The fused walk for one width of vectors. fused.c includes this file once per instruction set, after defining
   LANES (floats in a vector), GROUPS (vectors side by side in a product), NAMED(x), TARGET (the attribute of its
   functions), LARGER(a, b) and ANY(mask), which end with it.

   Read `rows` at the end first: scores of some rows, `softmax_row`, `write_stats` (what is asked of a row), output. In
   all of them i is a query, j a key, e points to a row's e^(score - maximum) with e[j] for key j, and share is 1 / its
   sum, so that a weight is e[j] * share. Such a pointer lies where key 0 would, wherever the row's own keys begin. For
   keys that the row may not attend to e is 0 as far as those go that its tile was multiplied with, unset beyond. */

#define PANEL (LANES * GROUPS) /* keys that are multiplied together */

typedef float NAMED(floats) __attribute__((vector_size(4 * LANES), aligned(4)));
typedef int32_t NAMED(ints) __attribute__((vector_size(4 * LANES), aligned(4)));
#define floats NAMED(floats)
#define ints NAMED(ints)

static INLINE floats NAMED(load)(const float *from) { return *(const floats *)from; }
static INLINE void NAMED(store)(float *to, floats x) { *(floats *)to = x; }
static INLINE floats NAMED(all)(float x) { return x - (floats){0}; }
static INLINE floats NAMED(where)(ints mask, floats a, floats b) {
    return (floats)((mask & (ints)a) | (~mask & (ints)b));
}
static INLINE floats NAMED(larger)(floats a, floats b) { return (floats)LARGER(a, b); } /* b where either is NaN */

static INLINE float NAMED(sum)(floats x) {
    float total = 0;
    for (int lane = 0; lane < LANES; lane++) total += x[lane];
    return total;
}

static INLINE float NAMED(largest)(floats x) {
    float largest = x[0];
    for (int lane = 1; lane < LANES; lane++) largest = x[lane] > largest ? x[lane] : largest;
    return largest;
}

static INLINE int NAMED(any)(ints mask) {
    int any = 0;
    for (int lane = 0; lane < LANES; lane++) any |= mask[lane];
    return any;
}

/* e^x for x <= 0, within 2 units in the last place; 0 below LOWEST, where e^x is no normal float any more.
   Cody and Waite's reduction by multiples of ln 2, then the polynomial of Cephes' expf. */
static INLINE floats NAMED(exponential)(floats x) {
    const floats shift = NAMED(all)(12582912.0f); /* 1.5 * 2^23: adding it rounds to an integer */
    floats shifted = NAMED(larger)(x, NAMED(all)(LOWEST)) * 1.44269504088896341f + shift;
    floats whole = shifted - shift;
    floats rest = NAMED(larger)(x, NAMED(all)(LOWEST)) - whole * 0.693359375f;
    rest = rest + whole * 2.12194440e-4f;
    floats p = NAMED(all)(1.9875691500e-4f);
    p = p * rest + 1.3981999507e-3f;
    p = p * rest + 8.3334519073e-3f;
    p = p * rest + 4.1665795894e-2f;
    p = p * rest + 1.6666665459e-1f;
    p = p * rest + 5.0000001201e-1f;
    p = p * (rest * rest) + rest + 1.0f;
    floats power = (floats)((ints)p + ((ints)shifted << 23)); /* times 2^whole, by adding to the exponent's bits */
    return NAMED(where)(x < NAMED(all)(LOWEST), (floats){0}, power);
}

/* c[ROWS, columns] = a[ROWS, depth] @ b[depth, columns], or += if `add`; strides in floats between rows. */
#define PRODUCT(NAME, WIDTH)                                                                                           \
    static TARGET void NAMED(NAME)(const float *a, int64_t a_row, const float *b, int64_t b_row, float *c,             \
                                   int64_t c_row, int64_t depth, int add) {                                            \
        floats sums[ROWS][WIDTH];                                                                                      \
        for (int r = 0; r < ROWS; r++)                                                                                 \
            for (int x = 0; x < WIDTH; x++) sums[r][x] = add ? NAMED(load)(c + r * c_row + x * LANES) : (floats){0};   \
        for (int64_t p = 0; p < depth; p++) {                                                                          \
            floats right[WIDTH];                                                                                       \
            for (int x = 0; x < WIDTH; x++) right[x] = NAMED(load)(b + p * b_row + x * LANES);                         \
            for (int r = 0; r < ROWS; r++)                                                                             \
                for (int x = 0; x < WIDTH; x++) sums[r][x] += NAMED(all)(a[r * a_row + p]) * right[x];                 \
        }                                                                                                              \
        for (int r = 0; r < ROWS; r++)                                                                                 \
            for (int x = 0; x < WIDTH; x++) NAMED(store)(c + r * c_row + x * LANES, sums[r][x]);                       \
    }
PRODUCT(product_wide, GROUPS)
PRODUCT(product_narrow, 1)
#undef PRODUCT

/* The same for any number of columns, of ROWS rows. */
static TARGET void NAMED(product)(const float *a, int64_t a_row, const float *b, int64_t b_row, float *c, int64_t c_row,
                           int64_t depth, int64_t columns, int add) {
    int64_t x = 0;
    for (; x + PANEL <= columns; x += PANEL) NAMED(product_wide)(a, a_row, b + x, b_row, c + x, c_row, depth, add);
    for (; x + LANES <= columns; x += LANES) NAMED(product_narrow)(a, a_row, b + x, b_row, c + x, c_row, depth, add);
    for (; x < columns; x++)
        for (int64_t r = 0; r < ROWS; r++) {
            float total = add ? c[r * c_row + x] : 0;
            for (int64_t p = 0; p < depth; p++) total += a[r * a_row + p] * b[p * b_row + x];
            c[r * c_row + x] = total;
        }
}

/* The t->count largest of a row's weights, largest first, equal ones by key; 0, and key -1, where there are fewer.

   From the last key on, for heads often look near. Then nearly every stretch of the row holds nothing that reaches the
   smallest that is held, and takes one comparison. */
static TARGET void NAMED(rank)(const Attention *t, int64_t i, const float *e, float share, float *weights,
                               int64_t *keys) {
    const int64_t first = t->first[i], count = t->count;
    float bar = 0;
    int64_t held = 0;
    for (int64_t j = t->last[i]; j > first;) {
        const int64_t stop = j - 4 * LANES > first ? j - 4 * LANES : first;
        if (j - 4 * LANES >= first) {
            const float *x = e + stop;
            floats top = NAMED(larger)(NAMED(larger)(NAMED(load)(x), NAMED(load)(x + LANES)),
                                       NAMED(larger)(NAMED(load)(x + 2 * LANES), NAMED(load)(x + 3 * LANES)));
            if (!ANY(top >= NAMED(all)(bar))) j = stop;
        }
        while (j > stop) {
            const float x = e[--j];
            if (x < bar) continue;
            int64_t at = held < count ? held++ : count - 1;
            for (; at > 0 && weights[at - 1] <= x; at--) {
                weights[at] = weights[at - 1];
                keys[at] = keys[at - 1];
            }
            weights[at] = x;
            keys[at] = j;
            if (held == count) bar = weights[count - 1];
        }
    }
    for (int64_t at = 0; at < count; at++) {
        weights[at] = at < held ? weights[at] * share : 0;
        if (at >= held) keys[at] = -1;
    }
}

/* Copy the keys of a key head into panels [keys / PANEL, d, PANEL]: a product reads them one after the other. */
static TARGET void NAMED(pack)(const Attention *t, int64_t key_head) {
    const float *k = t->k + key_head * t->k_head;
    for (int64_t start = 0; start < t->m; start += PANEL) {
        float *to = t->panels + key_head * padded_keys(t) * t->d + start * t->d;
        for (int64_t j = 0; j < PANEL; j++) {
            const float *from = k + (start + j) * t->k_row;
            for (int64_t c = 0; c < t->d; c++) to[c * PANEL + j] = start + j < t->m ? from[c] : 0;
        }
    }
}

/* The scores s[begin:end] of a row become e^(score - reference), and its moments are noted; returns its share.

   reference  the largest score, or a larger sink: no exponential overflows
   begin:end  the keys that were multiplied, in whole vectors; those that query i may not attend to become 0
   A row that may attend to nothing has share 0. A score of NaN or +infinity leaves all to another way. */
static TARGET float NAMED(softmax_row)(Attention *t, int64_t head, int64_t i, float *s, int64_t begin, int64_t end) {
    const int64_t first = t->first[i], last = t->last[i], o = head * t->n + i;
    const float sink = t->sink ? t->sink[head] : -INFINITY;
    const int sees = first < last;
    const int64_t from = sees ? first / LANES * LANES : begin, to = sees ? (last + LANES - 1) / LANES * LANES : begin;
    for (int64_t j = from; sees && j < first; j++) s[j] = -INFINITY;
    for (int64_t j = last; sees && j < to; j++) s[j] = -INFINITY;
    floats tops = NAMED(all)(-INFINITY), total = {0}, entropy = {0}, distance = {0}, far;
    ints odd = {0};
    for (int64_t j = from; j < to; j += LANES) {
        floats x = NAMED(load)(s + j);
        odd |= x != x;
        tops = NAMED(larger)(x, tops);
    }
    const float top = NAMED(largest)(tops), reference = top > sink ? top : sink;
    if (ANY(odd) || top == INFINITY) __atomic_store_n(&t->broken, 1, __ATOMIC_RELAXED);
    const float base = reference > -INFINITY ? reference : 0;
    for (int lane = 0; lane < LANES; lane++) far[lane] = (float)(from - t->position[i] + lane);
    for (int64_t j = begin; j < from; j++) s[j] = 0;
    for (int64_t j = from; j < to; j += LANES) {
        floats x = NAMED(load)(s + j) - base;
        floats e = NAMED(exponential)(x);
        total += e;
        entropy += e * NAMED(larger)(x, NAMED(all)(LOWEST)); /* e is 0 below LOWEST, and 0 * -inf would be NaN */
        distance += e * (floats)((ints)far & 0x7fffffff);
        far += (float)LANES;
        NAMED(store)(s + j, e);
    }
    for (int64_t j = to; j < end; j++) s[j] = 0;
    const float keys = NAMED(sum)(total), all = keys + (t->sink ? expf(sink - base) : 0);
    const float share = all > 0 ? 1 / all : 0;
    if (t->maximum) {
        t->maximum[o] = top;
        t->logsumexp[o] = all > 0 ? base + logf(all) : -INFINITY;
        t->weight_sum[o] = keys * share;
        t->entropy_nats[o] = keys > 0 ? keys * share * logf(all) - NAMED(sum)(entropy) * share : 0;
        t->distance[o] = NAMED(sum)(distance) * share;
    }
    return share;
}

/* The sums of a row's weights e * share over its key sets, and of their products with vectors. */
static TARGET void NAMED(key_and_vector_sums)(const Attention *t, int64_t head, int64_t i, const float *e,
                                              float share) {
    const int64_t first = t->first[i], last = t->last[i], o = head * t->n + i;
    const int32_t *keys = t->set_keys + i * t->set_columns;
    for (int64_t l = 0, c = 0; l < t->key_sets; c = t->set_ends[l++]) {
        float sum = 0;
        for (; c < t->set_ends[l] && keys[c] >= 0; c++) sum += keys[c] >= first && keys[c] < last ? e[keys[c]] : 0;
        t->key_sums[o * t->key_sets + l] = sum * share;
    }
    for (int64_t vector = 0; vector < t->vectors; vector++) {
        const float *values = t->vector_values + vector * padded_keys(t);
        floats sum = {0};
        for (int64_t j = first / LANES * LANES; first < last && j < last; j += LANES) /* e is 0 around first:last */
            sum += NAMED(load)(e + j) * NAMED(load)(values + j);
        t->vector_sums[o * t->vectors + vector] = NAMED(sum)(sum) * share;
    }
}

/* Note what is asked of query i from its weights e * share; q is the query, scaled, and `panels` its head's keys. */
static TARGET void NAMED(write_stats)(const Attention *t, int64_t head, int64_t i, const float *e, float share,
                                      const float *q, const float *panels) {
    const int64_t o = (head * t->n + i) * t->count;
    if (t->key_sets || t->vectors) NAMED(key_and_vector_sums)(t, head, i, e, share);
    if (t->count) NAMED(rank)(t, i, e, share, t->top_weights + o, t->top_keys + o);
    for (int64_t at = o; at < o + t->count; at++) { /* scores were overwritten: these few are multiplied again */
        const int64_t key = t->top_keys[at];
        float score = 0;
        const float *k = panels + key / PANEL * PANEL * t->d + key % PANEL;
        for (int64_t c = 0; key >= 0 && c < t->d; c++) score += q[c] * k[c * PANEL];
        t->top_scores[at] = key < 0 ? -INFINITY : score;
    }
}

/* Rows start:stop of a head, from scores to output; b is the thread's own memory.

   A tile of ROWS rows is multiplied with no keys but those that one of them may attend to, in whole vectors:
   begins[tile] .. ends[tile] - 1. Side by side, short texts have few each. Column sums stay in b.columns,
   for the caller to hand on. */
static TARGET void NAMED(rows)(Attention *t, int64_t head, int64_t start, int64_t stop, Buffers b) {
    const float *panels = panels_of(t, head);
    const int64_t rows = stop - start, tiles = (rows + ROWS - 1) / ROWS, group = head / (t->h / t->g);
    int64_t begins[MOST_ROWS / ROWS + 1], ends[MOST_ROWS / ROWS + 1], begin = t->m, end = 0;
    for (int64_t tile = 0; tile < tiles; tile++) {
        int64_t first = t->m, last = 0;
        for (int64_t i = start + tile * ROWS; i < stop && i < start + (tile + 1) * ROWS; i++)
            if (t->first[i] < t->last[i]) {
                if (t->first[i] < first) first = t->first[i];
                if (t->last[i] > last) last = t->last[i];
            }
        begins[tile] = first < last ? first / LANES * LANES : 0;
        ends[tile] = first < last ? (last + LANES - 1) / LANES * LANES : 0;
        if (first < last && begins[tile] < begin) begin = begins[tile];
        if (first < last && ends[tile] > end) end = ends[tile];
    }
    begin = begin < end ? begin / PANEL * PANEL : 0;
    end = begin < end ? (end + PANEL - 1) / PANEL * PANEL : begin;
    const int64_t width = end - begin + LANES; /* no multiple of a page, whose rows would share places in the cache */
    for (int64_t r = 0; r < rows; r++) {
        const float *from = t->q + head * t->q_head + (start + r) * t->q_row;
        for (int64_t c = 0; c < t->d; c++) b.queries[r * t->d + c] = from[c] * t->scale;
    }
    for (int64_t j = begin; j < end; j += PANEL) /* [rows, d] @ [d, PANEL] */
        for (int64_t tile = 0, r = 0; tile < tiles; tile++, r += ROWS) {
            const int64_t from = begins[tile] > j ? begins[tile] : j;
            const int64_t to = ends[tile] < j + PANEL ? ends[tile] : j + PANEL;
            if (from < to)
                NAMED(product)(b.queries + r * t->d, t->d, panels + j * t->d + from - j, PANEL,
                               b.scores + r * width + from - begin, width, t->d, to - from, 0);
        }
    for (int64_t r = 0; r < rows; r++) {
        float *s = b.scores + r * width - begin;
        b.shares[r] = NAMED(softmax_row)(t, head, start + r, s, begins[r / ROWS], ends[r / ROWS]);
        NAMED(write_stats)(t, head, start + r, s, b.shares[r], b.queries + r * t->d, panels);
    }
    for (int64_t tile = 0; t->received && tile < tiles; tile++)
        for (int64_t j = begins[tile]; j < ends[tile]; j += LANES) {
            floats sums = NAMED(load)(b.columns + j);
            for (int64_t r = tile * ROWS; r < rows && r < (tile + 1) * ROWS; r++)
                sums += NAMED(load)(b.scores + r * width + j - begin) * b.shares[r];
            NAMED(store)(b.columns + j, sums);
        }
    if (!t->output) return;
    const float *v = t->v + group * t->v_head;
    memset(b.output, 0, (size_t)(rows * t->e) * sizeof(float));
    for (int64_t j = begin; j < end; j += DEPTH) /* [rows, DEPTH] @ [DEPTH, e] */
        for (int64_t tile = 0, r = 0; tile < tiles; tile++, r += ROWS) {
            const int64_t from = begins[tile] > j ? begins[tile] : j, all = ends[tile] < t->m ? ends[tile] : t->m;
            const int64_t to = all < j + DEPTH ? all : j + DEPTH;
            if (from < to)
                NAMED(product)(b.scores + r * width + from - begin, width, v + from * t->v_row, t->v_row,
                               b.output + r * t->e, t->e, to - from, t->e, 1);
        }
    for (int64_t r = 0; r < rows; r++) {
        float *to = t->output + head * t->output_head + (start + r) * t->output_row;
        for (int64_t c = 0; c < t->e; c++) to[c] = b.output[r * t->e + c] * b.shares[r];
    }
}

#undef floats
#undef ints
#undef PANEL
#undef NAMED
#undef TARGET
#undef LARGER
#undef ANY
#undef LANES
#undef GROUPS
