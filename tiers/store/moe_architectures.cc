#include "tiers/store/moe_architectures.h"

#include <algorithm>
#include <array>

namespace moetier {
namespace {

using kernels::Activation;

constexpr MoeArchitecture SwiGlu(std::string_view name, RouterScore score = RouterScore::kSoftmax) {
  return {name, Activation::kSwiGlu, score, {}};
}
constexpr MoeArchitecture Refused(std::string_view name, std::string_view why) {
  return {name, std::nullopt, RouterScore::kSoftmax, why};
}

// As llama.cpp v0.4.0 builds their graphs. Listed are those whose experts are gate, up and down
// alone with one of our activations; the score is what it takes when the file has no
// expert_gating_func.
constexpr std::array kArchitectures = {
    SwiGlu("afmoe", RouterScore::kSigmoid),
    SwiGlu("arctic"),
    SwiGlu("bailingmoe"),
    SwiGlu("bailingmoe2", RouterScore::kSigmoid),
    SwiGlu("cohere2moe", RouterScore::kSigmoid),
    SwiGlu("dbrx"),
    SwiGlu("deepseek"),
    SwiGlu("deepseek2"),
    SwiGlu("deepseek2-ocr"),
    SwiGlu("deepseek32", RouterScore::kSigmoid),
    SwiGlu("dots1", RouterScore::kSigmoid),
    SwiGlu("ernie4_5-moe"),
    SwiGlu("exaone-moe", RouterScore::kSigmoid),
    MoeArchitecture{"gemma4", Activation::kGeGlu, RouterScore::kSoftmax, {}},
    SwiGlu("glm-dsa", RouterScore::kSigmoid),
    SwiGlu("glm4moe", RouterScore::kSigmoid),
    MoeArchitecture{"gpt-oss", Activation::kSwiGluClamped, RouterScore::kSoftmaxAfterTopK, {}},
    SwiGlu("granitehybrid"),
    SwiGlu("granitemoe"),
    MoeArchitecture{"grok", Activation::kGeGlu, RouterScore::kSoftmax, {}},
    SwiGlu("hunyuan-moe"),
    SwiGlu("hy_v3", RouterScore::kSigmoid),
    SwiGlu("jamba"),
    SwiGlu("kimi-linear", RouterScore::kSigmoid),
    SwiGlu("laguna", RouterScore::kSigmoid),
    SwiGlu("lfm2moe", RouterScore::kSigmoid),
    SwiGlu("llada-moe"),
    SwiGlu("llama"),
    SwiGlu("mimo2", RouterScore::kSigmoid),
    SwiGlu("minimax-m2", RouterScore::kSigmoid),
    MoeArchitecture{"minimax-m3", Activation::kSwiGluClamped, RouterScore::kSigmoid, {}},
    SwiGlu("mistral3"),
    SwiGlu("mistral4"),
    SwiGlu("olmoe"),
    SwiGlu("phimoe"),
    SwiGlu("qwen2moe"),
    SwiGlu("qwen35moe"),
    SwiGlu("qwen3moe"),
    SwiGlu("qwen3next"),
    SwiGlu("qwen3vlmoe"),
    SwiGlu("rnd1"),
    Refused("kimi-k3", "its experts use SiTU, which no kernel of ours computes"),
    Refused("llama4", "it weights a row before the expert, not the expert's output after it"),
    Refused("nemotron_h_moe", "its experts have no gate and use a squared ReLU"),
    Refused("smallthinker", "its experts use ReGLU, which no kernel of ours computes"),
};

}  // namespace

const MoeArchitecture* FindMoeArchitecture(std::string_view name) {
  const auto found = std::ranges::find(kArchitectures, name, &MoeArchitecture::name);
  return found == kArchitectures.end() ? nullptr : &*found;
}

}  // namespace moetier
