#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
#include <cstdio>

#include "tests/unit/cuda/kernel_device.h"

// The kernels' tests on a GPU. Exits 77 and says why where there is none.

int main(int argc, char** argv) {
  const auto device = moetier::kernels::cuda::KernelDevice::Open(0);
  if (!device.has_value()) {
    std::printf("skipped: %s\n", device.error().message.c_str());
    return 77;
  }
  std::printf("on %s\n", device.value()->info().name.c_str());
  return Catch::Session().run(argc, argv);
}
