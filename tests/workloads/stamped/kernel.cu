/* A kernel on the host, for the stand-in of nvcc: with stamps, it writes what profiler/timeline.cuh
   would. */

#ifdef PROFILER_TIMELINE
static unsigned words[4 * 8 * 1024];

const char* profiler_timeline_error_string(int code) { return "no error"; }
const char* profiler_timeline_activities(void) { return "load, store"; }
const char* profiler_timeline_groups(void) { return "all of it"; }
void profiler_timeline_sizes(unsigned* sizes) {
  sizes[0] = 4, sizes[1] = 8, sizes[2] = 1024, sizes[3] = 8, sizes[4] = 5;
}
int profiler_timeline_clear(void) {
  for (int i = 0; i < 4 * 8 * 1024; ++i) words[i] = 0;
  return 0;
}
int profiler_timeline_read(unsigned* copy) {
  for (int i = 0; i < 4 * 8 * 1024; ++i) copy[i] = words[i];
  return 0;
}
static void stamp(void) {
  const unsigned group[] = {129, 7, 5000, 0, 100, 6000, 0, 1100, 200 << 5 | 1, 700 << 5 | 2};
  for (int i = 0; i < 10; ++i) words[i] = group[i];
}
#else
static void stamp(void) {}
#endif

int launch(const float* in, float* out, int count) {
  for (int i = 0; i < count; ++i) out[i] = 2 * in[i];
  stamp();
  return 0;
}
