// The library of late_library and loads_at_once: data that points to data, set when it is loaded, and two counters for each thread.
static int value = 10;
static int* where = &value;
static __thread int from_hundred = 100, from_zero;

__attribute__((constructor)) static void loaded(void) { value = 1000; }
int* data(void) { return &value; }
int count_own(void) { return ++from_zero; }
int next(void) { return (*where += 10) + (++from_hundred - 100 == ++from_zero ? from_zero : 9); }
