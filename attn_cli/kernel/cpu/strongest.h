/* The strongest rows of each kind, one of a text; included by fused.c. */

#define MOST_KINDS 32

/* Rows of some texts side by side, n each, of h heads, which threads share. */
typedef struct {
    int64_t h, texts, n, kinds, most;
    const float *weights;  /* [h, rows], 0 where a row is of no kind */
    const uint32_t *bits;  /* [h, rows]: of which kinds each row is */
    const float *least;    /* [h, kinds]: weaker ones are left out */
    const int64_t *order;  /* [texts]: of equally strong rows that of the first text here is kept */
    int64_t *rows;         /* [h, kinds, most], -1 at first */
    int64_t next;          /* 0 at first */
} Strongest;

size_t attn_strongest_size(void) { return sizeof(Strongest); }

/* Put a row where it belongs among the `most` rows of a kind that are kept, the strongest first; behind those as strong
   as it. The last one falls out. */
static void keep(const float *weights, int64_t *rows, int64_t most, int64_t row) {
    int64_t at = most;
    while (at > 0 && (rows[at - 1] < 0 || weights[rows[at - 1]] < weights[row])) at--;
    if (at == most) return;
    memmove(rows + at + 1, rows + at, (size_t)(most - 1 - at) * sizeof(int64_t));
    rows[at] = row;
}

/* Fill `rows` of a head: of each text the strongest row of every kind, text by text in their order. */
static void strongest_of_head(const Strongest *t, int64_t head) {
    const float *weights = t->weights + head * t->texts * t->n, *least = t->least + head * t->kinds;
    const uint32_t *bits = t->bits + head * t->texts * t->n;
    for (int64_t each = 0; each < t->texts; each++) {
        int64_t best[MOST_KINDS];
        uint32_t some = 0; /* the kinds of which the text has a row that is strong enough */
        for (int64_t i = t->order[each] * t->n; i < (t->order[each] + 1) * t->n; i++)
            for (uint32_t left = weights[i] > 0 ? bits[i] : 0; left; left &= left - 1) {
                const int kind = __builtin_ctz(left);
                if (weights[i] < least[kind] || (some >> kind & 1 && weights[i] <= weights[best[kind]])) continue;
                best[kind] = i, some |= 1u << kind;
            }
        for (; some; some &= some - 1) {
            const int kind = __builtin_ctz(some);
            keep(weights, t->rows + (head * t->kinds + kind) * t->most, t->most, best[kind]);
        }
    }
}

static void strongest_of_heads(void *strongest) {
    Strongest *t = strongest;
    for (int64_t head; (head = __atomic_fetch_add(&t->next, 1, __ATOMIC_RELAXED)) < t->h;) strongest_of_head(t, head);
}

/* By this thread alone, or by a team, as attn_text_sums. */
void attn_strongest(Strongest *t, void (*parallel)(void (*)(void *), void *, unsigned, unsigned), unsigned threads) {
    if (parallel) parallel(strongest_of_heads, t, threads, 0);
    else strongest_of_heads(t);
}
