// Inception-v3 without the auxiliary head: the model of 23.8 M parameters that is compared by.
#include <utility>

#include "absl/strings/str_cat.h"
#include "model/zoo/builder.h"
#include "model/zoo/families.h"

namespace ebb::model::zoo {
namespace {

// Kernels of 1x7 and 7x1, and of 1x3 and 3x1.
constexpr ConvOptions Wide(int64_t kernel) { return {{1, kernel}, 1, {0, kernel / 2}}; }
constexpr ConvOptions Tall(int64_t kernel) { return {{kernel, 1}, 1, {kernel / 2, 0}}; }
// Without padding.
constexpr ConvOptions Valid(int64_t kernel, int64_t stride) { return {Square(kernel), stride}; }

// The layers of one module, whose branches are chains of convolution, batch normalisation and ReLU.
class Module {
 public:
  Module(Builder& builder, std::string name) : b_(builder), name_(std::move(name)) {}

  ValueId Unit(const std::string& layer, ValueId x, int64_t out, const ConvOptions& conv) {
    const std::string name = absl::StrCat(name_, ".", layer);
    x = b_.BatchNorm(name + ".bn", b_.Conv(name + ".conv", x, out, conv), 1e-3);
    return b_.Relu(name + ".relu", x);
  }
  struct Link {
    int64_t out;
    ConvOptions conv;
  };
  // "branch_1", "branch_2", ...
  ValueId Chain(const std::string& branch, ValueId x, std::initializer_list<Link> links) {
    int i = 0;
    for (const Link& link : links) {
      x = Unit(absl::StrCat(branch, "_", ++i), x, link.out, link.conv);
    }
    return x;
  }
  ValueId PoolUnit(ValueId x, int64_t out) {
    return Unit("branch_pool", b_.AveragePool(name_ + ".pool", x, 3, 1, 1), out, Same(1));
  }
  ValueId MaxPool(ValueId x) { return b_.MaxPool(name_ + ".pool", x, 3, 2, 0); }
  ValueId Join(std::vector<ValueId> branches, const std::string& suffix = ".concat") {
    return b_.Concat(name_ + suffix, std::move(branches));
  }

 private:
  Builder& b_;
  const std::string name_;
};

ValueId InceptionA(Module m, ValueId x, int64_t pool_features) {
  return m.Join({m.Unit("branch1x1", x, 64, Same(1)),
                 m.Chain("branch5x5", x, {{48, Same(1)}, {64, Same(5)}}),
                 m.Chain("branch3x3dbl", x, {{64, Same(1)}, {96, Same(3)}, {96, Same(3)}}),
                 m.PoolUnit(x, pool_features)});
}

ValueId InceptionB(Module m, ValueId x) {
  return m.Join({m.Unit("branch3x3", x, 384, Valid(3, 2)),
                 m.Chain("branch3x3dbl", x, {{64, Same(1)}, {96, Same(3)}, {96, Valid(3, 2)}}),
                 m.MaxPool(x)});
}

ValueId InceptionC(Module m, ValueId x, int64_t c) {
  return m.Join({m.Unit("branch1x1", x, 192, Same(1)),
                 m.Chain("branch7x7", x, {{c, Same(1)}, {c, Wide(7)}, {192, Tall(7)}}),
                 m.Chain("branch7x7dbl", x,
                         {{c, Same(1)}, {c, Tall(7)}, {c, Wide(7)}, {c, Tall(7)}, {192, Wide(7)}}),
                 m.PoolUnit(x, 192)});
}

ValueId InceptionD(Module m, ValueId x) {
  return m.Join({m.Chain("branch3x3", x, {{192, Same(1)}, {320, Valid(3, 2)}}),
                 m.Chain("branch7x7x3", x,
                         {{192, Same(1)}, {192, Wide(7)}, {192, Tall(7)}, {192, Valid(3, 2)}}),
                 m.MaxPool(x)});
}

ValueId InceptionE(Module m, ValueId x) {
  const auto split = [&](const std::string& layer, ValueId y) {
    return m.Join({m.Unit(layer + "a", y, 384, Wide(3)), m.Unit(layer + "b", y, 384, Tall(3))},
                  absl::StrCat(".", layer));
  };
  return m.Join(
      {m.Unit("branch1x1", x, 320, Same(1)),
       split("branch3x3_2", m.Unit("branch3x3_1", x, 384, Same(1))),
       split("branch3x3dbl_3", m.Chain("branch3x3dbl", x, {{448, Same(1)}, {384, Same(3)}})),
       m.PoolUnit(x, 192)});
}

}  // namespace

absl::StatusOr<graph::Graph> InceptionV3(int64_t batch) {
  Builder b(batch);
  const auto stem = [&](const std::string& name, ValueId x, int64_t out, const ConvOptions& conv) {
    x = b.BatchNorm(name + ".bn", b.Conv(name + ".conv", x, out, conv), 1e-3);
    return b.Relu(name + ".relu", x);
  };
  ValueId x = stem("Conv2d_1a_3x3", b.Image(299), 32, Valid(3, 2));
  x = stem("Conv2d_2a_3x3", x, 32, Valid(3, 1));
  x = b.MaxPool("maxpool1", stem("Conv2d_2b_3x3", x, 64, Same(3)), 3, 2, 0);
  x = stem("Conv2d_3b_1x1", x, 80, Same(1));
  x = b.MaxPool("maxpool2", stem("Conv2d_4a_3x3", x, 192, Valid(3, 1)), 3, 2, 0);
  x = InceptionA({b, "Mixed_5b"}, x, 32);
  x = InceptionA({b, "Mixed_5c"}, x, 64);
  x = InceptionA({b, "Mixed_5d"}, x, 64);
  x = InceptionB({b, "Mixed_6a"}, x);
  x = InceptionC({b, "Mixed_6b"}, x, 128);
  x = InceptionC({b, "Mixed_6c"}, x, 160);
  x = InceptionC({b, "Mixed_6d"}, x, 160);
  x = InceptionC({b, "Mixed_6e"}, x, 192);
  x = InceptionD({b, "Mixed_7a"}, x);
  x = InceptionE({b, "Mixed_7b"}, x);
  x = InceptionE({b, "Mixed_7c"}, x);
  x = b.Dropout("dropout", b.GlobalAveragePool("avgpool", x), 0.5);
  return b.Finish(b.Linear("fc", x, 1000), "logits");
}

}  // namespace ebb::model::zoo
