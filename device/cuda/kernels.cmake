# The files of own kernels: compiled by nvcc in device/cuda, and by the host's compiler in
# tests/device/cuda_double. A new one has its rows in own_kernels.cc, or in library_kernels.cc where
# a library (library.h) has a part in it.
set(EBB_CUDA_KERNELS
  adaptive.cu
  batch_norm.cu
  binary.cu
  choice.cu
  conv.cu
  embedding_bag.cu
  gather.cu
  group_norm.cu
  gru.cu
  index.cu
  layer_norm.cu
  logic.cu
  loss.cu
  lrn.cu
  lstm.cu
  matmul.cu
  metric.cu
  movement.cu
  pool.cu
  random.cu
  reduce.cu
  rms_norm.cu
  rounded.cu
  softmax.cu
  sparse_adaptive.cu
  unary.cu
  update.cu)
list(TRANSFORM EBB_CUDA_KERNELS PREPEND ${CMAKE_CURRENT_LIST_DIR}/)
set(EBB_CUDA_OWN_KERNELS ${CMAKE_CURRENT_LIST_DIR}/own_kernels.cc ${CMAKE_CURRENT_LIST_DIR}/library_kernels.cc)
