/* Opens converters in turn, which libc keeps in modules that it loads and unloads by itself. */
#define _GNU_SOURCE
#include <iconv.h>
#include <stdio.h>

int main(void) {
  const char* const names[] = {"UTF-16", "UTF-32", "UTF-7", "ISO-2022-KR", "ISO-2022-CN", "BIG5-HKSCS", "EUC-JISX0213"};
  int opened = 0;
  for (int round = 0; round < 60; ++round)
    for (unsigned i = 0; i < sizeof names / sizeof *names; ++i) {
      const iconv_t converter = iconv_open(names[i], "ISO-8859-15");
      if (converter == (iconv_t)-1) continue;
      ++opened;
      iconv_close(converter);
    }
  return opened < 300;
}
