#ifndef MOETIER_BASE_RESULT_H_
#define MOETIER_BASE_RESULT_H_

#include <string>
#include <utility>
#include <variant>

#include "base/check.h"
#include "base/reason.h"

namespace moetier {

// What went wrong, coarse (a gRPC code follows from it) and exact (`reason`), with a message that
// says what, where and what to do.
struct Error {
  ErrorCode code = ErrorCode::kInternal;
  Reason reason = Reason::kUnspecified;
  std::string message;
};

// The value of a step that succeeds without one.
struct Ok {
  friend bool operator==(Ok, Ok) = default;
};

// A value or an Error; spelt like std::expected so that it can become it.
template <typename T = Ok>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT

  [[nodiscard]] bool has_value() const { return state_.index() == 0; }
  explicit operator bool() const { return has_value(); }

  T& value() & {
    MOE_CHECK(has_value(), "value() of an error: {}", error().message);
    return std::get<0>(state_);
  }
  const T& value() const& {
    MOE_CHECK(has_value(), "value() of an error: {}", error().message);
    return std::get<0>(state_);
  }
  T&& value() && {
    MOE_CHECK(has_value(), "value() of an error: {}", error().message);
    return std::get<0>(std::move(state_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  Error& error() & { return std::get<1>(state_); }
  const Error& error() const& { return std::get<1>(state_); }
  Error&& error() && { return std::get<1>(std::move(state_)); }

 private:
  std::variant<T, Error> state_;
};

using Status = Result<Ok>;

}  // namespace moetier

#define MOE_CONCAT_INNER_(a, b) a##b
#define MOE_CONCAT_(a, b) MOE_CONCAT_INNER_(a, b)

// Returns the error of `expression` to the caller, or goes on.
#define RETURN_IF_ERROR(expression)                                \
  do {                                                             \
    if (auto moe_status_ = (expression); !moe_status_.has_value()) \
      return std::move(moe_status_).error();                       \
  } while (false)

// ASSIGN_OR_RETURN(UniqueFd fd, UniqueFd::Open(path)): declares or assigns, or returns the error.
#define ASSIGN_OR_RETURN(target, expression) \
  ASSIGN_OR_RETURN_IMPL_(MOE_CONCAT_(moe_result_, __LINE__), target, expression)
#define ASSIGN_OR_RETURN_IMPL_(result, target, expression)   \
  auto result = (expression);                                \
  if (!result.has_value()) return std::move(result).error(); \
  target = std::move(result).value()

#endif  // MOETIER_BASE_RESULT_H_
