#include "tests/support/fake_fastlane.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

struct moetier_lane {
  moetier_grant grant;
};

namespace moetier::testing {
namespace {

moetier_status Take(std::vector<moetier_status>& answers) {
  if (answers.empty()) return MOETIER_OK;
  const moetier_status answer = answers.front();
  answers.erase(answers.begin());
  return answer;
}

moetier_status Answer(moetier_status status, moetier_error* error) {
  if (status == MOETIER_OK) return status;
  *error = {};
  std::snprintf(error->text, sizeof error->text, "%s", FakeFastlane::Get().text.c_str());
  return status;
}

template <typename T>
void Skip(T*& rows, size_t stride, size_t packed, uint32_t count) {
  rows = reinterpret_cast<T*>(reinterpret_cast<uintptr_t>(rows) +
                              count * (stride != 0 ? stride : packed));
}

}  // namespace

FakeFastlane& FakeFastlane::Get() {
  static FakeFastlane daemon;
  return daemon;
}

}  // namespace moetier::testing

using moetier::testing::FakeFastlane;

extern "C" {

moetier_status moetier_lane_attach(const moetier_attach* attach, uint64_t /*timeout_us*/,
                                   moetier_lane** lane, moetier_error* error) {
  FakeFastlane& daemon = FakeFastlane::Get();
  daemon.client = attach->client;
  daemon.model = attach->model != nullptr ? attach->model : "";
  daemon.files = attach->file_count;
  const moetier_status status = moetier::testing::Take(daemon.attach_answers);
  if (status != MOETIER_OK) return moetier::testing::Answer(status, error);
  ++daemon.attached;
  moetier_grant grant{};
  grant.session = static_cast<uint64_t>(daemon.attached);
  grant.max_rows = daemon.max_rows;
  grant.activation = daemon.activation;
  grant.model = "fake";
  grant.arithmetic = "fake";
  grant.daemon_version = "0";
  grant.socket = "/fake.sock.fastlane";
  *lane = new moetier_lane{grant};
  return MOETIER_OK;
}

void moetier_lane_close(moetier_lane* lane) {
  if (lane == nullptr) return;
  ++FakeFastlane::Get().closed;
  delete lane;
}

const moetier_grant* moetier_lane_grant(const moetier_lane* lane) { return &lane->grant; }

moetier_status moetier_lane_compute(moetier_lane* lane, const moetier_layer_call* call,
                                    moetier_layer_info* /*info*/, moetier_error* error) {
  FakeFastlane& daemon = FakeFastlane::Get();
  daemon.calls.push_back(*call);
  const moetier_status status = moetier::testing::Take(daemon.compute_answers);
  if (status != MOETIER_OK) return moetier::testing::Answer(status, error);
  moetier_layer_call piece = *call;
  for (uint32_t left = call->rows; left > 0; left -= piece.rows) {
    piece.rows = std::min(left, lane->grant.max_rows);
    daemon.compute(piece);
    using moetier::testing::Skip;
    const size_t row = call->hidden * sizeof(float);
    Skip(piece.hidden_rows, call->hidden_stride, row, piece.rows);
    Skip(piece.experts, call->experts_stride, call->top_k * sizeof(int32_t), piece.rows);
    Skip(piece.weights, call->weights_stride, call->top_k * sizeof(float), piece.rows);
    Skip(piece.output, call->output_stride, row, piece.rows);
  }
  return MOETIER_OK;
}

}  // extern "C"
