find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)

add_executable(bench_kernels kernels_bench.cc cold_memory.cc
  ${PROJECT_SOURCE_DIR}/tests/unit/kernels/simd_matrix.cc)
target_include_directories(bench_kernels PRIVATE ${PROJECT_SOURCE_DIR})
target_link_libraries(bench_kernels PRIVATE moetier_warnings moetier::kernels CLI11::CLI11
  nlohmann_json::nlohmann_json)
