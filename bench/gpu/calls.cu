// Launches, graphs, events and waits: the host's time for a call, and the card's for what it does.
#include "bench/gpu/measure.h"

namespace ebb::bench::gpu {
namespace {

constexpr int kCalls = 500;  // fewer than a stream takes before launches block
constexpr int kNodes = 50;   // of a graph

// The host's time for one call, the better of a few rounds; the streams are idle before each.
double CallMicros(const std::function<void()>& call) {
  double best = 0;
  for (int round = 0; round < 5; ++round) {
    EBB_CUDA_CHECK(cudaDeviceSynchronize());
    const double micros = HostMicros([&] {
                            for (int i = 0; i < kCalls; ++i) call();
                          }) /
                          kCalls;
    if (round == 0 || micros < best) best = micros;
  }
  EBB_CUDA_CHECK(cudaDeviceSynchronize());
  return best;
}

// The card's time for each of many, from one to the next.
double CardMicros(int count, const std::function<void(cudaStream_t)>& enqueue) {
  return GatedMicros([&](cudaStream_t stream, cudaStream_t) {
           for (int i = 0; i < count; ++i) enqueue(stream);
         }) /
         count;
}

cudaGraphExec_t GraphOf(const std::function<void(cudaStream_t)>& enqueue, double* micros) {
  const Stream stream;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  EBB_CUDA_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  enqueue(stream);
  EBB_CUDA_CHECK(cudaStreamEndCapture(stream, &graph));
  *micros = HostMicros([&] { EBB_CUDA_CHECK(cudaGraphInstantiate(&exec, graph, 0)); });
  EBB_CUDA_CHECK(cudaGraphDestroy(graph));
  return exec;
}

void MeasureLaunches() {
  const Stream stream;
  for (int i = 0; i < 100; ++i) LaunchEmpty(stream);  // what is loaded on first use is loaded
  Say("launch_host_us", CallMicros([&] { LaunchEmpty(stream); }));
  Say("launch_card_us", CardMicros(kCalls, LaunchEmpty));
  double instantiate = 0;
  cudaGraphExec_t graph = GraphOf(
      [](cudaStream_t on) {
        for (int i = 0; i < kNodes; ++i) LaunchEmpty(on);
      },
      &instantiate);
  Say("graph_kernels", kNodes);
  Say("graph_instantiate_us", instantiate);
  double first = HostMicros([&] { EBB_CUDA_CHECK(cudaGraphLaunch(graph, stream)); });
  stream.Synchronize();
  Say("graph_first_launch_host_us", first);
  Say("graph_launch_host_us", CallMicros([&] { EBB_CUDA_CHECK(cudaGraphLaunch(graph, stream)); }));
  Say("graph_card_us_a_kernel", CardMicros(20, [&](cudaStream_t on) {
                                  EBB_CUDA_CHECK(cudaGraphLaunch(graph, on));
                                }) / kNodes);
  EBB_CUDA_CHECK(cudaGraphExecDestroy(graph));
}

void MeasureEvents() {
  const Stream stream, other;
  const Event event, done;
  EBB_CUDA_CHECK(cudaEventRecord(done, other));
  other.Synchronize();
  Say("event_record_host_us", CallMicros([&] { EBB_CUDA_CHECK(cudaEventRecord(event, stream)); }));
  Say("event_query_complete_us", CallMicros([&] { EBB_CUDA_CHECK(cudaEventQuery(done)); }));
  LaunchWait(stream, 50'000'000);
  EBB_CUDA_CHECK(cudaEventRecord(event, stream));
  Say("event_query_pending_us", HostMicros([&] {
                                  for (int i = 0; i < kCalls; ++i) {
                                    const cudaError_t state = cudaEventQuery(event);
                                    if (state != cudaErrorNotReady) EBB_CUDA_CHECK(state);
                                  }
                                }) / kCalls);
  cudaGetLastError();  // "not ready" stays as the last error until it is asked for
  stream.Synchronize();
  Say("wait_host_us", CallMicros([&] { EBB_CUDA_CHECK(cudaStreamWaitEvent(stream, done, 0)); }));
  Say("record_card_us", CardMicros(kCalls, [&](cudaStream_t on) {
        LaunchEmpty(on);
        EBB_CUDA_CHECK(cudaEventRecord(event, on));
      }));
  // From the end of an event's work to the start of what waits for it on another stream.
  constexpr int kHops = 200;
  Say("hop_card_us", GatedMicros([&](cudaStream_t first, cudaStream_t second) {
                       for (int i = 0; i < kHops; ++i) {
                         cudaStream_t from = i % 2 == 0 ? first : second;
                         cudaStream_t to = i % 2 == 0 ? second : first;
                         LaunchEmpty(from);
                         EBB_CUDA_CHECK(cudaEventRecord(event, from));
                         EBB_CUDA_CHECK(cudaStreamWaitEvent(to, event, 0));
                       }
                     }) / kHops);
}

}  // namespace

void MeasureCalls() {
  MeasureLaunches();
  MeasureEvents();
}

}  // namespace ebb::bench::gpu
