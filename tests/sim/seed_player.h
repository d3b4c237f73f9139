#ifndef MOETIER_TESTS_SIM_SEED_PLAYER_H_
#define MOETIER_TESTS_SIM_SEED_PLAYER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace moetier {

// A simulated world that a seed determines. Threads: one.
class SeededWorld {
 public:
  enum class Detail : uint8_t { kQuiet, kSteps };  // kSteps: prints what it does, if it can

  virtual ~SeededWorld() = default;
  // Plays the seed, with the fault of canary `canary` planted unless there is none. What broke.
  virtual std::optional<std::string> Play(uint64_t seed, std::optional<size_t> canary,
                                          Detail detail) = 0;
  [[nodiscard]] virtual std::vector<std::string_view> CanaryNames() const = 0;
  [[nodiscard]] virtual uint64_t steps() const = 0;  // over all seeds
};

// The main function of a simulator: plays the seeds that the command line asks for, or looks for
// those that catch each canary; names the seed when an invariant stops the process.
//   --seeds N [--first S]   N seeds from S (1) on
//   --seed N                one seed, as a failure prints it
//   --file FILE             seeds that once found something, one a line
//   --canaries N            each canary until it is caught, within N seeds
// Gives the exit code: 0 when all is as it should be, 1 when not, 2 for bad arguments.
int RunSimulator(int argc, char** argv, const std::string& about, SeededWorld& world);

}  // namespace moetier

#endif  // MOETIER_TESTS_SIM_SEED_PLAYER_H_
