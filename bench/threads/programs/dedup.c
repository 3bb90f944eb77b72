// dedup: a pipeline. Cutters divide the input where a rolling hash says so, hashers look each chunk up in a shared table,
// packers compress the new ones. Chunks are allocated in one thread, grown in another and freed in a third.
#include "workers.h"

enum { kSegment = 1 << 18, kChunkLeast = 512, kChunkMost = 16384, kBuckets = 1 << 16, kQueue = 256 };

struct chunk {
  struct chunk* next;
  size_t bytes;
  uint64_t hash;
  unsigned char* data;
};
struct queue {
  pthread_mutex_t lock;
  pthread_cond_t not_empty, not_full;
  struct chunk* ring[kQueue];
  int first, count, writers;
};
struct entry {
  struct entry* next;
  uint64_t hash;
};

static struct queue to_hash = {.lock = PTHREAD_MUTEX_INITIALIZER}, to_pack = {.lock = PTHREAD_MUTEX_INITIALIZER};
static struct entry* table[kBuckets];
static pthread_mutex_t table_locks[256];
static size_t segments, next_segment;
static uint64_t packed_bytes, unique, duplicates, digest;

static void put(struct queue* q, struct chunk* c) {
  pthread_mutex_lock(&q->lock);
  while (q->count == kQueue) pthread_cond_wait(&q->not_full, &q->lock);
  q->ring[(q->first + q->count++) % kQueue] = c;
  pthread_cond_signal(&q->not_empty);
  pthread_mutex_unlock(&q->lock);
}
static struct chunk* get(struct queue* q) {
  pthread_mutex_lock(&q->lock);
  while (q->count == 0 && q->writers > 0) pthread_cond_wait(&q->not_empty, &q->lock);
  struct chunk* c = NULL;
  if (q->count > 0) {
    c = q->ring[q->first];
    q->first = (q->first + 1) % kQueue;
    --q->count;
    pthread_cond_signal(&q->not_full);
  }
  pthread_mutex_unlock(&q->lock);
  return c;
}
static void done_writing(struct queue* q) {
  pthread_mutex_lock(&q->lock);
  --q->writers;
  pthread_cond_broadcast(&q->not_empty);
  pthread_mutex_unlock(&q->lock);
}

/// About half of the segments repeat earlier ones.
static void make_segment(unsigned char* out, size_t number) {
  uint64_t seed = 88172645463325252ull + (number % 2 ? number / 2 : number) * 2654435761u;
  for (size_t i = 0; i < kSegment; i += 8) {
    const uint64_t r = next_random(&seed) & 0x0f0f0f0f0f0f0f0full;
    memcpy(out + i, &r, 8);
  }
}

static void* cut(void* unused) {
  for (;;) {
    const size_t number = __atomic_fetch_add(&next_segment, 1, __ATOMIC_RELAXED);
    if (number >= segments) break;
    unsigned char* segment = malloc(kSegment);
    make_segment(segment, number);
    for (size_t at = 0; at < kSegment;) {
      size_t end = at;
      uint32_t rolling = 0;
      while (end < kSegment && end - at < kChunkMost) {
        rolling = rolling * 31 + segment[end++];
        if (end - at >= kChunkLeast && (rolling & 0xfff) == 0) break;
      }
      struct chunk* c = malloc(sizeof *c);
      *c = (struct chunk){NULL, end - at, 0, malloc(end - at)};
      memcpy(c->data, segment + at, end - at);
      put(&to_hash, c);
      at = end;
    }
    free(segment);
  }
  done_writing(&to_hash);
  return unused;
}

/// True when the hash was seen before.
static int look_up(uint64_t hash) {
  struct entry** bucket = &table[hash % kBuckets];
  pthread_mutex_t* lock = &table_locks[hash % 256];
  pthread_mutex_lock(lock);
  struct entry* e = *bucket;
  while (e && e->hash != hash) e = e->next;
  const int seen = e != NULL;
  if (!seen) {
    e = malloc(sizeof *e);
    *e = (struct entry){*bucket, hash};
    *bucket = e;
  }
  pthread_mutex_unlock(lock);
  return seen;
}

static void* hash(void* unused) {
  for (struct chunk* c; (c = get(&to_hash)) != NULL;) {
    uint64_t h = 1469598103934665603ull;
    for (int pass = 0; pass < 4; ++pass)
      for (size_t i = 0; i < c->bytes; ++i) h = (h ^ c->data[i]) * 1099511628211ull;
    c->hash = h;
    if (look_up(h)) {
      __atomic_fetch_add(&duplicates, 1, __ATOMIC_RELAXED);
      free(c->data);
      free(c);
    } else {
      put(&to_pack, c);
    }
  }
  done_writing(&to_pack);
  return unused;
}

/// Two values of four bits a byte: the input has no others.
static void* pack(void* unused) {
  for (struct chunk* c; (c = get(&to_pack)) != NULL;) {
    unsigned char* out = malloc(64);
    size_t room = 64, used = 0;
    for (size_t i = 0; i + 1 < c->bytes; i += 2) {
      if (used == room) out = realloc(out, room *= 2);
      out[used++] = (unsigned char)(c->data[i] << 4 | c->data[i + 1]);
    }
    uint64_t h = 0;
    for (size_t i = 0; i < used; ++i) h = h * 131 + out[i];
    __atomic_fetch_add(&packed_bytes, used, __ATOMIC_RELAXED);
    __atomic_fetch_add(&unique, 1, __ATOMIC_RELAXED);
    __atomic_fetch_xor(&digest, h, __ATOMIC_RELAXED);
    free(out);
    free(c->data);
    free(c);
  }
  return unused;
}

int main(int count, char** arguments) {
  const int threads = thread_count(count, arguments);
  segments = (size_t)size_or(count, arguments, 64) * 1048576 / kSegment;
  for (int i = 0; i < 256; ++i) pthread_mutex_init(&table_locks[i], NULL);
  to_hash.writers = to_pack.writers = threads;
  pthread_t* all = malloc(3 * (size_t)threads * sizeof *all);
  void* (*const stages[])(void*) = {cut, hash, pack};
  for (int i = 0; i < 3 * threads; ++i) create_worker(&all[i], i, stages[i % 3], NULL);
  for (int i = 0; i < 3 * threads; ++i) pthread_join(all[i], NULL);
  printf("unique %llu duplicates %llu packed %llu digest %016llx\n", (unsigned long long)unique,
         (unsigned long long)duplicates, (unsigned long long)packed_bytes, (unsigned long long)digest);
  free(all);
  return 0;
}
