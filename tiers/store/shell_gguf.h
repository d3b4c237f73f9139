#ifndef MOETIER_TIERS_STORE_SHELL_GGUF_H_
#define MOETIER_TIERS_STORE_SHELL_GGUF_H_

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/result.h"
#include "tiers/store/gguf_model.h"

// A shell is the model file for an engine whose experts are elsewhere: everything as in the model,
// but each expert weight tensor is a hole in the file, declared in a smaller type. Its metadata say
// whose experts they are.

namespace moetier {

inline constexpr std::string_view kShellVersionKey = "moetier.shell.version";  // u32
inline constexpr uint32_t kShellVersion = 1;
// Of the model's experts: 16 hexadecimal digits.
inline constexpr std::string_view kShellFingerprintKey = "moetier.shell.fingerprint";
// A sentence for people: engines print a file's keys when they load it.
inline constexpr std::string_view kShellNoteKey = "moetier.shell.note";

// The fingerprint that a shell names; none if the file is no shell. kBadGguf when a shell's keys
// are damaged, kUnsupportedModel for a shell of another version.
Result<std::optional<uint64_t>> ShellFingerprint(const GgufModel& gguf);

// Whether a shell declares this tensor as a hole: expert weights, not their biases, which an engine
// may add itself.
bool IsShellHole(std::string_view tensor_name);

// The tensor as a shell declares it, `bytes` included: in the smallest type that every ggml since
// 0.9.7 knows and whose block divides the row, else in its own.
GgufTensor AsShellHole(const GgufTensor& tensor);

}  // namespace moetier

#endif  // MOETIER_TIERS_STORE_SHELL_GGUF_H_
