// docs/model.md lists the ops that can be imported: all of them, as errors send users there.
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "model/host_fold.h"
#include "model/onnx_bags.h"
#include "model/onnx_ops.h"
#include "tests/model/onnx_builder.h"

namespace ebb {
namespace {

TEST(ModelPage, ListsEveryOpOfTheTables) {
  const std::string page = testing::ReadBinary(EBB_SOURCE_DIR "/docs/model.md");
  const auto expect = [&](absl::string_view op) {
    EXPECT_TRUE(absl::StrContains(page, absl::StrCat("`", op, "`"))) << op;
  };
  for (const auto& family : model::OnnxFamilies()) {
    for (const model::OnnxOp& row : family) {
      if (row.name != model::kEmbeddingBagOp) expect(row.name);  // no op of ONNX
    }
  }
  for (auto family : {model::FoldArith(), model::FoldUnaries(), model::FoldMove()}) {
    for (const model::FoldRow& row : family) expect(row.op);
  }
  for (const char* op : {"Constant", "ConstantOfShape", "Shape", "Size", "Range"}) expect(op);
}

}  // namespace
}  // namespace ebb
