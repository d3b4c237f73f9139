#include "daemon/rpc/model_messages.h"

#include <array>
#include <optional>
#include <string>

#include "daemon/rpc/status_map.h"
#include "daemon/transport/wire_text.h"
#include "kernels/layout.h"
#include "kernels/weight_type.h"

namespace moetier {
namespace {

const char* ActivationName(kernels::Activation activation) {
  switch (activation) {
    case kernels::Activation::kSwiGlu:
      return "swiglu";
    case kernels::Activation::kGeGlu:
      return "geglu";
    case kernels::Activation::kSwiGluClamped:
      return "swiglu_clamped";
  }
  return "";
}

// A `source` store may hold types that have no name in WeightType, but all are in ggml's table.
std::string TypeName(kernels::WeightType type) {
  const auto number = static_cast<uint32_t>(type);
  const kernels::WeightTypeInfo* info = kernels::FindWeightType(number);
  return info == nullptr ? fmt::format("type {}", number) : std::string(info->name);
}

constexpr std::array<const char*, kernels::kPartRoles> kRoleNames = {
    "gate", "up", "down", "gate_bias", "up_bias", "down_bias"};  // by PartRole

v1::RecordPart ToProto(const char* role, const kernels::RecordPart& part) {
  v1::RecordPart message;
  message.set_role(role);
  message.set_type(TypeName(part.type));
  message.set_layout(part.layout == kernels::PartLayout::kRows16 ? "rows16" : "source");
  message.set_rows(part.rows);
  message.set_columns(part.columns);
  message.set_offset(part.offset);
  message.set_stride(part.stride);
  return message;
}

v1::LayerGeometry ToProto(const LayerGeometry& layer) {
  v1::LayerGeometry message;
  message.set_layer(Raw(layer.layer));
  message.set_experts(layer.experts);
  message.set_ffn(layer.shape.ffn);
  message.set_activation(ActivationName(layer.shape.activation));
  message.set_gate_type(TypeName(layer.shape.gate));
  message.set_up_type(TypeName(layer.shape.up));
  message.set_down_type(TypeName(layer.shape.down));
  message.set_record_bytes(layer.record.bytes);
  message.set_size_class(Raw(layer.size_class));
  message.set_compute(layer.compute);
  message.set_bias(layer.shape.gate_bias || layer.shape.up_bias || layer.shape.down_bias);
  for (size_t i = 0; i < kernels::kPartRoles; ++i) {
    const std::optional<kernels::RecordPart>& part = layer.record.parts[i];
    if (part) *message.add_parts() = ToProto(kRoleNames[i], *part);
  }
  return message;
}

v1::Geometry ToProto(const ModelGeometry& geometry) {
  v1::Geometry message;
  message.set_name(WireText(geometry.name));
  message.set_architecture(WireText(geometry.architecture));
  message.set_hidden(geometry.hidden);
  message.set_top_k(geometry.top_k);
  for (const LayerGeometry& layer : geometry.layers) *message.add_layers() = ToProto(layer);
  for (const SizeClassGeometry& size_class : geometry.size_classes) {
    message.add_slot_bytes(size_class.slot_bytes.count());
  }
  return message;
}

}  // namespace

v1::PoolKind ToProto(PoolKind kind) {
  switch (kind) {
    case PoolKind::kVram:
      return v1::POOL_KIND_VRAM;
    case PoolKind::kRam:
      return v1::POOL_KIND_RAM;
    case PoolKind::kNvme:
      return v1::POOL_KIND_NVME;
  }
  return v1::POOL_KIND_UNSPECIFIED;
}

v1::LaneKind ToProto(LaneKind kind) {
  switch (kind) {
    case LaneKind::kCpu:
      return v1::LANE_KIND_CPU;
    case LaneKind::kZeroCopy:
      return v1::LANE_KIND_ZERO_COPY;
    case LaneKind::kGpu:
      return v1::LANE_KIND_GPU;
  }
  return v1::LANE_KIND_UNSPECIFIED;
}

v1::StoreKind ToProto(StoreKind kind) {
  switch (kind) {
    case StoreKind::kPackedRows16:
      return v1::STORE_KIND_ROWS16;
    case StoreKind::kPackedSource:
      return v1::STORE_KIND_SOURCE;
    case StoreKind::kInPlace:
      return v1::STORE_KIND_IN_PLACE;
  }
  return v1::STORE_KIND_UNSPECIFIED;
}

v1::ModelState ToProto(ModelState state) {
  switch (state) {
    case ModelState::kLoading:
      return v1::MODEL_STATE_LOADING;
    case ModelState::kReady:
      return v1::MODEL_STATE_READY;
    case ModelState::kUnloading:
      return v1::MODEL_STATE_UNLOADING;
  }
  return v1::MODEL_STATE_UNSPECIFIED;
}

v1::Pool ToProto(const PoolSnapshot& pool) {
  v1::Pool message;
  message.set_index(Raw(pool.index));
  message.set_kind(ToProto(pool.kind));
  message.set_name(pool.name);
  return message;
}

v1::Lane ToProto(const LaneSnapshot& lane) {
  v1::Lane message;
  message.set_index(lane.index);
  message.set_kind(ToProto(lane.kind));
  message.set_name(lane.name);
  return message;
}

v1::Model ToProto(const ModelInfo& model) {
  v1::Model message;
  message.set_name(WireText(model.name));
  message.set_id(Raw(model.id));
  message.set_fingerprint(model.fingerprint);
  message.set_state(ToProto(model.state));
  message.set_store_kind(ToProto(model.store_kind));
  message.set_directory(WireText(model.directory));
  for (const std::string& path : model.source_paths) message.add_source_paths(WireText(path));
  message.set_arithmetic(model.arithmetic);
  message.set_layout_version(kernels::kLayoutVersion);
  if (model.geometry != nullptr) *message.mutable_geometry() = ToProto(*model.geometry);
  return message;
}

v1::QuarantinedExpert ToProto(const QuarantineSnapshot& expert) {
  v1::QuarantinedExpert message;
  message.set_layer(Raw(expert.key.layer));
  message.set_expert(Raw(expert.key.expert));
  message.set_file(WireText(expert.file));
  message.set_offset(expert.offset);
  message.set_reason(ToProto(expert.reason));
  message.set_message(WireText(expert.message));
  return message;
}

v1::Progress ToProto(const ModelProgress& progress) {
  v1::Progress message;
  message.set_stage(WireText(progress.stage));
  message.set_bytes_done(progress.bytes_done.count());
  message.set_bytes_total(progress.bytes_total.count());
  message.set_records_done(progress.records_done);
  message.set_records_total(progress.records_total);
  message.set_message(WireText(progress.message));
  for (const QuarantineSnapshot& expert : progress.faulty) *message.add_faulty() = ToProto(expert);
  return message;
}

}  // namespace moetier
