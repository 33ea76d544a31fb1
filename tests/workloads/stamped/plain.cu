/* The same without stamps. */
int launch(const float* in, float* out, int count) {
  for (int i = 0; i < count; ++i) out[i] = 3 * in[i] - in[i];
  return 0;
}
