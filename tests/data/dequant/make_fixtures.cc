// make_fixtures LIBGGML_BASE FOLDER: writes FOLDER/TYPE.bin for each type below: `blocks` blocks of
// seeded bytes, then what ggml's to_float gives for them as little-endian f32.
#include <dlfcn.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

namespace {

// The start of ggml's struct of that name; its fields' order is part of ggml's public interface.
struct ggml_type_traits {
  const char* type_name;
  int64_t block_weights;
  int64_t interleave;
  size_t block_bytes;
  bool is_quantized;
  void (*to_float)(const void* blocks, float* out, int64_t weights);
};

// What a type's random bytes must look like to be a block that occurs: f16 scales are finite.
struct Fixture {
  int ggml_type;
  const char* name;
  int blocks;
  std::vector<size_t> half_fields;  // offsets of f16 scales in a block
};

const std::vector<Fixture> kFixtures = {
    {1, "F16", 1024, {0}},   {30, "BF16", 1024, {}},    {2, "Q4_0", 32, {0}},
    {3, "Q4_1", 32, {0, 2}}, {6, "Q5_0", 32, {0}},      {7, "Q5_1", 32, {0, 2}},
    {8, "Q8_0", 32, {0}},    {10, "Q2_K", 8, {80, 82}}, {11, "Q3_K", 8, {108}},
    {12, "Q4_K", 8, {0, 2}}, {13, "Q5_K", 8, {0, 2}},   {14, "Q6_K", 8, {208}},
    {20, "IQ4_NL", 32, {0}}, {23, "IQ4_XS", 8, {0}},    {39, "MXFP4", 32, {}},
};

// Zero, smallest and largest subnormal, largest, both signs, one, smallest normal.
constexpr std::array<uint16_t, 8> kHalves = {0x0000, 0x8001, 0x7BFF, 0xFBFF,
                                             0x83FF, 0x8000, 0x3C00, 0x0400};
constexpr std::array<uint8_t, 8> kExponents = {0, 1, 255, 2, 254, 127, 128, 129};

uint64_t NextRandom(uint64_t& state) {  // splitmix64
  uint64_t z = (state += 0x9E3779B97F4A7C15u);
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
  z = (z ^ z >> 27) * 0x94D049BB133111EBu;
  return z ^ z >> 31;
}

uint16_t FiniteHalf(uint64_t random) {
  const uint16_t bits = static_cast<uint16_t>(random);
  return (bits & 0x7C00) == 0x7C00 ? bits & 0xBFFF : bits;
}

// Block 8 is all ones, 9 all zeros, 10 all 0x80, the rest random; the scales come after.
std::vector<uint8_t> MakeBlocks(const Fixture& fixture, size_t block_bytes) {
  uint64_t state = 20260 + static_cast<uint64_t>(fixture.ggml_type);
  std::vector<uint8_t> bytes(block_bytes * static_cast<size_t>(fixture.blocks));
  for (size_t b = 0; b < static_cast<size_t>(fixture.blocks); ++b) {
    uint8_t* block = bytes.data() + b * block_bytes;
    for (size_t i = 0; i < block_bytes; ++i) {
      const uint8_t random = static_cast<uint8_t>(NextRandom(state));
      block[i] = b == 8 ? 0xFF : b == 9 ? 0 : b == 10 ? 0x80 : random;
    }
    for (size_t f = 0; f < fixture.half_fields.size(); ++f) {
      const uint16_t half = b < kHalves.size() ? kHalves[(b + 3 * f) % kHalves.size()]
                                               : FiniteHalf(NextRandom(state));
      block[fixture.half_fields[f]] = static_cast<uint8_t>(half);
      block[fixture.half_fields[f] + 1] = static_cast<uint8_t>(half >> 8);
    }
    if (fixture.ggml_type == 39 && b < kExponents.size()) block[0] = kExponents[b];
    if (fixture.ggml_type == 30 && (block[1] & 0x7F) == 0x7F) block[1] &= 0xBF;
  }
  return bytes;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return std::fprintf(stderr, "usage: make_fixtures LIBGGML_BASE FOLDER\n"), 2;
  void* library = dlopen(argv[1], RTLD_NOW);
  if (library == nullptr) return std::fprintf(stderr, "%s\n", dlerror()), 1;
  const auto get_traits =
      reinterpret_cast<const ggml_type_traits* (*)(int)>(dlsym(library, "ggml_get_type_traits"));
  if (get_traits == nullptr) return std::fprintf(stderr, "%s\n", dlerror()), 1;
  for (const Fixture& fixture : kFixtures) {
    const ggml_type_traits& traits = *get_traits(fixture.ggml_type);
    const std::vector<uint8_t> blocks = MakeBlocks(fixture, traits.block_bytes);
    std::vector<float> weights(static_cast<size_t>(fixture.blocks * traits.block_weights));
    traits.to_float(blocks.data(), weights.data(), static_cast<int64_t>(weights.size()));
    std::ofstream out(std::string(argv[2]) + "/" + fixture.name + ".bin", std::ios::binary);
    out.write(reinterpret_cast<const char*>(blocks.data()),
              static_cast<std::streamsize>(blocks.size()));
    out.write(reinterpret_cast<const char*>(weights.data()),
              static_cast<std::streamsize>(weights.size() * sizeof(float)));
    if (!out.flush()) return std::fprintf(stderr, "cannot write %s\n", fixture.name), 1;
  }
}
