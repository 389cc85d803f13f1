// A program outside yoke: its headers, its library and LibTorch's are found, errors can be caught.
#include <yoke/yoke.h>

#include <cstdio>
#include <cstring>

int main() {
  try {
    yoke::Trainer trainer({.model = "no-such-folder/no-such-model", .devices = "cpu"});
    trainer.evaluate("no-such-file.csv");
  } catch (const yoke::Error& error) {
    std::printf("%s\n", error.what());
    return std::strstr(error.what(), "no-such-model") ? 0 : 1;
  }
  return 1;
}
