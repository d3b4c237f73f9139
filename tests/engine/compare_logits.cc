// compare_logits A B VOCABULARY: how far two files of logits are apart, on one line:
// tokens, mean and largest |difference|, mean and largest KL(A || B), share of equal best tokens.
// Then a line for each row whose best tokens differ, with how close A's best two were.
// Exit status 1 if they do not hold the same number of rows of finite values.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <vector>

namespace {

std::vector<float> Read(const char* path) {
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  std::vector<float> values(static_cast<size_t>(in.tellg()) / sizeof(float));
  in.seekg(0);
  in.read(reinterpret_cast<char*>(values.data()),
          static_cast<std::streamsize>(values.size() * sizeof(float)));
  return values;
}

std::vector<double> LogSoftmax(const float* row, size_t count) {
  const double most = *std::max_element(row, row + count);
  double sum = 0;
  for (size_t i = 0; i < count; ++i) sum += std::exp(row[i] - most);
  std::vector<double> logs(count);
  for (size_t i = 0; i < count; ++i) logs[i] = row[i] - most - std::log(sum);
  return logs;
}

// How far the row's second largest value is below its largest.
float Margin(const float* row, size_t count) {
  std::vector<float> sorted(row, row + count);
  std::partial_sort(sorted.begin(), sorted.begin() + 2, sorted.end(), std::greater<>());
  return sorted[0] - sorted[1];
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const std::vector<float> a = Read(argv[1]);
  const std::vector<float> b = Read(argv[2]);
  const auto vocabulary = static_cast<size_t>(std::atol(argv[3]));
  if (a.size() != b.size() || a.empty() || a.size() % vocabulary != 0) {
    std::printf("%zu values against %zu\n", a.size(), b.size());
    return 1;
  }
  const size_t rows = a.size() / vocabulary;
  double sum = 0;
  double largest = 0;
  double kl_sum = 0;
  double kl_largest = 0;
  std::vector<size_t> parted;
  for (size_t row = 0; row < rows; ++row) {
    const float* const left = a.data() + row * vocabulary;
    const float* const right = b.data() + row * vocabulary;
    const std::vector<double> p = LogSoftmax(left, vocabulary);
    const std::vector<double> q = LogSoftmax(right, vocabulary);
    double kl = 0;
    for (size_t i = 0; i < vocabulary; ++i) {
      const double difference = std::fabs(double{left[i]} - double{right[i]});
      if (!std::isfinite(difference)) return 1;
      sum += difference;
      largest = std::max(largest, difference);
      kl += std::exp(p[i]) * (p[i] - q[i]);
    }
    kl_sum += kl;
    kl_largest = std::max(kl_largest, kl);
    const auto best = [&](const float* logits) {
      return std::max_element(logits, logits + vocabulary) - logits;
    };
    if (best(left) != best(right)) parted.push_back(row);
  }
  const auto count = static_cast<double>(rows);
  const auto same_best = static_cast<double>(rows - parted.size());
  std::printf("%zu %.6f %.6f %.3e %.3e %.4f\n", rows, sum / static_cast<double>(a.size()), largest,
              kl_sum / count, kl_largest, same_best / count);
  for (const size_t row : parted) {
    std::printf(
        "  another best token at row %zu, where the best two were %.4f apart (twice the "
        "largest difference: %.4f)\n",
        row, static_cast<double>(Margin(a.data() + row * vocabulary, vocabulary)), 2 * largest);
  }
  return 0;
}
