// A fifth shape of loop, for turning matrices around: what is read along one dimension and written
// along another passes through tiles in shared memory, so that both are done in whole lines.
#pragma once

#include "device/cuda/launch.h"
#include "device/cuda/strides.h"

namespace ebb::device::cuda {

inline constexpr int kTile = 32;

// `batches` matrices of p_count by q_count.
struct TileGrid {
  TileGrid(int64_t batches, int64_t p_elements, int64_t q_elements)
      : p_count(p_elements),
        q_count(q_elements),
        p_tiles(std::max<int64_t>((p_elements + kTile - 1) / kTile, 1)),
        q_tiles(std::max<int64_t>((q_elements + kTile - 1) / kTile, 1)),
        tiles(p_elements * q_elements == 0 ? 0 : batches * p_tiles * q_tiles) {}

  struct Tile {
    int64_t batch, p, q;  // its first element
  };
  EBB_INLINE Tile At(int64_t tile) const {
    const auto [rest, q] = Divide(tile, q_tiles);
    const auto [batch, p] = Divide(rest, p_tiles);
    return {batch, p * kTile, q * kTile};
  }

  int64_t p_count, q_count;
  Divisor p_tiles, q_tiles;
  int64_t tiles;
};

// For every element of every matrix: f.Store(batch, p, q, f.Load(batch, p, q)), of F::Element.
// Neighbouring threads load neighbouring p and store neighbouring q.
#if defined(__CUDACC__)
namespace internal {

template <class F>
__global__ void __launch_bounds__(kBlock) TilesKernel(F f, TileGrid grid) {
  __shared__ typename F::Element tile[kTile][kTile + 1];  // no two of a column in one bank
  const int along = static_cast<int>(threadIdx.x) % kTile;
  const int first = static_cast<int>(threadIdx.x) / kTile;
  for (int64_t t = blockIdx.x; t < grid.tiles; t += gridDim.x) {
    const TileGrid::Tile at = grid.At(t);
    for (int other = first; other < kTile; other += kBlock / kTile) {
      const int64_t p = at.p + along, q = at.q + other;
      if (p < grid.p_count && q < grid.q_count) tile[other][along] = f.Load(at.batch, p, q);
    }
    __syncthreads();
    for (int other = first; other < kTile; other += kBlock / kTile) {
      const int64_t p = at.p + other, q = at.q + along;
      if (p < grid.p_count && q < grid.q_count) f.Store(at.batch, p, q, tile[along][other]);
    }
    __syncthreads();
  }
}

}  // namespace internal
#endif

template <class F>
absl::Status Tiles(const Launch& at, const TileGrid& grid, const F& f) {
  static_assert(std::is_trivially_copyable_v<F>);
  if (grid.tiles <= 0) return absl::OkStatus();
#if defined(__CUDACC__)
  const auto blocks = static_cast<unsigned>(std::min(grid.tiles, kMaxBlocks));
  internal::TilesKernel<<<blocks, kBlock, 0, at.stream>>>(f, grid);
  return LaunchStatus("Tiles");
#else
  return EnqueueOnDouble(at.stream, [f, grid, order = OrderOnDouble(at.stream)] {
    typename F::Element tile[kTile][kTile];
    Loop(order, grid.tiles, [&](int64_t t) {
      const TileGrid::Tile from = grid.At(t);
      const int64_t p_end = std::min(from.p + kTile, grid.p_count);
      const int64_t q_end = std::min(from.q + kTile, grid.q_count);
      for (int64_t q = from.q; q < q_end; ++q) {
        for (int64_t p = from.p; p < p_end; ++p) {
          tile[q - from.q][p - from.p] = f.Load(from.batch, p, q);
        }
      }
      for (int64_t p = from.p; p < p_end; ++p) {
        for (int64_t q = from.q; q < q_end; ++q) {
          f.Store(from.batch, p, q, tile[q - from.q][p - from.p]);
        }
      }
    });
  });
#endif
}

}  // namespace ebb::device::cuda
