// ebb-bench: measures what co-training costs and brings, as a table and as JSON.
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/log.h"
#include "bench/commands.h"

namespace ebb::bench {
namespace {

constexpr int kExitFailed = 1;
constexpr int kExitUsage = 2;

constexpr Command kCommands[] = {
    {"capacity",
     "largest batch at which equal jobs train together, on a simulated device\n"
     "    --device D    sim:PROFILE or sim:PROFILE+vector (sim:v100-16gb)\n"
     "    --jobs K      jobs at once (2)\n"
     "    --models A,B  models of the zoo (all)\n"
     "    --steps N     steps of every job (50)\n",
     Capacity},
    {"scheduler",
     "microseconds a scheduling decision\n"
     "    --jobs K,L    numbers of jobs (2,10,100,1000)\n"
     "    --runs N      the median of so many runs (5)\n",
     Decisions},
    {"sharing",
     "what sharing brings: progress of mixes of jobs under Ebb and under others' policies\n"
     "    --device D    sim:PROFILE (sim:v100-16gb); both overlap models are measured\n"
     "    --jobs K      jobs at once (2)\n"
     "    --fraction F  batch of each as part of its largest alone (0.9)\n"
     "    --batch B     or the same batch for all\n"
     "    --models A,B  models of the zoo (eight)\n"
     "    --mixes N     how many, drawn at random (all pairs, 20 of more jobs)\n"
     "    --of W        distinct models, or equal jobs (distinct)\n"
     "    --seed S      of the draw (1)\n"
     "    --steps N     of the longest job of a mix, that are measured (100)\n"
     "    --constants F a YAML file that replaces some of the profile's constants\n"
     "    --sensitivity also with launch cost and bandwidth halved and doubled\n",
     Sharing},
    {"soak",
     "random mixes of jobs: arrivals, cancels, pauses, failures; faults are an error\n"
     "    --device D    sim:PROFILE or sim:PROFILE+vector (sim:v100-16gb)\n"
     "    --mixes N     how many (500)\n"
     "    --seed S      what they are drawn from (1)\n"
     "    --only I      mix I of them alone, and what happens in it\n",
     SoakMixes},
    {"fidelity",
     "how well a simulated device predicts cpu: calibrated alone, compared together\n"
     "    --mixes N     of two jobs, every fourth of three (10)\n"
     "    --seed S      what they are drawn from (1)\n"
     "    --seconds T   of every run (1)\n"
     "    --repeats N   the median of the quieter half of so many runs (6)\n"
     "    --patience T  seconds to wait for a quiet machine before a run (5)\n"
     "    --profile F   writes the calibrated profile there, for sim:F\n",
     Fidelity},
    {"together",
     "equal jobs at once on any device, in its own time, against the same in turns and alone;\n"
     "    that they end with the same bits is checked\n"
     "    --device D    cpu, cuda, sim:PROFILE, ... (cpu)\n"
     "    --memory M    the pool, as 15GB (all of the device's)\n"
     "    --jobs K      jobs at once (2)\n"
     "    --models A,B  models of the zoo, or jobs of fidelity\n"
     "    --batch B     of the models (the largest at which all fit)\n"
     "    --steps N     of each job, at least 5 (20)\n"
     "    --precision P fp32, tf32 or bf16 (fp32)\n",
     Together},
    {"granularity",
     "summed progress of two equal jobs by how finely their steps are cut\n"
     "    --device D    sim:PROFILE or sim:PROFILE+vector (sim:v100-16gb)\n"
     "    --models A,B  models of the zoo (all)\n"
     "    --groups N,M  forward groups, up to 64 (1,2,4,8,16,32,64)\n"
     "    --fraction F  of the batch of a job alone (0.8)\n"
     "    --steps N     steps of each job (20)\n",
     Granularity},
    {"allocator",
     "memory and time that allocators take for what two jobs allocate\n"
     "    --device D    sim:PROFILE or sim:PROFILE+vector (sim:v100-16gb)\n"
     "    --models A,B  two jobs of each (all of the zoo, and mixed pairs)\n"
     "    --fraction F  of the batch of a job alone (0.8)\n"
     "    --steps N     of each job (6)\n"
     "    --runs N      the median of so many runs (7)\n",
     Allocators},
    {"roofline",
     "times of single kernels on a simulated device beside measured ones\n"
     "    --data DIR    tables of latencies: DIR/linear, bmm, conv / GPU.csv or .csv.gz\n"
     "    --device D    sim:PROFILE (sim:v100-16gb)\n"
     "    --gpu G       the name of the tables (Tesla_V100-PCIE-32GB)\n",
     Roofline},
    {"predict",
     "the performance model's predictions beside what others measured; a missed gate is an error\n"
     "    --data DIR    the folder of measured figures\n"
     "    --only A,B    groups of rows (all that take no times here: look_ups does)\n",
     Predict},
};

std::string Help() {
  std::string help = "ebb-bench COMMAND [--FLAG VALUE ...]\n\n";
  for (const Command& command : kCommands) {
    absl::StrAppendFormat(&help, "  %-12s  %s", command.name, command.help);
  }
  return help +
         "\n  --json FILE   of every command: writes the figures there as well\n\n"
         "Exit codes: 0 measured and every check held; 1 a run failed, did not fit or did not "
         "hold what\n  the command checks, or figures were not written; 2 wrong usage: an "
         "unknown command or flag, a\n  value that cannot be, a model, device or file that "
         "is not there or is wrong.\n";
}

absl::Status Run(const Args& args) {
  if (args.empty()) {
    return absl::InvalidArgumentError("give a command; ebb-bench --help lists them");
  }
  std::vector<std::string> names;
  for (const Command& command : kCommands) {
    if (args[0] == command.name) return command.run(Args(args.begin() + 1, args.end()));
    names.push_back(command.name);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("there is no command '", args[0], "'; there are ", absl::StrJoin(names, ", ")));
}

int Main(int argc, char** argv) {
  const Args args(argv + 1, argv + argc);
  if (!args.empty() && (args[0] == "--help" || args[0] == "-h")) {
    std::fputs(Help().c_str(), stdout);
    return 0;
  }
  SetLogLevel(LogLevel::kWarning);
  const absl::Status status = Run(args);
  if (status.ok()) return 0;
  std::fprintf(stderr, "ebb-bench: %s\n", std::string(status.message()).c_str());
  const bool usage = absl::IsInvalidArgument(status) || absl::IsNotFound(status);
  return usage ? kExitUsage : kExitFailed;
}

}  // namespace
}  // namespace ebb::bench

int main(int argc, char** argv) { return ebb::bench::Main(argc, argv); }
