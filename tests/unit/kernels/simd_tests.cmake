moetier_test(simd_kernels_test SOURCES simd_kernels_test.cc simd_matrix.cc
  LIBRARIES moetier::kernels LABELS kernels)
