// Images against what PIL and torchvision make of the same files (tests/data/make_images.py).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <set>

#include "absl/strings/str_cat.h"
#include "data/augment.h"
#include "data/dataset.h"
#include "data/image_codec.h"
#include "data/image_rows.h"
#include "data/npy.h"
#include "tests/data/files.h"

namespace ebb::data {
namespace {

using graph::DType;
using graph::HostTensor;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Kind = Transform::Kind;

std::string File(const std::string& name) { return Fixture("images/" + name); }

const HostTensor& Expected(const std::string& name) {
  static const auto* const arrays =
      new std::map<std::string, HostTensor>(*ParseNpz(File("expected.npz"), MiB(16)));
  return arrays->at(name);
}

Image Decoded(const std::string& name) {
  const auto image = DecodeImage(File(name));
  EXPECT_TRUE(image.ok()) << name << ": " << image.status();
  return image.ok() ? *image : Image{};
}

PixelView ViewOf(const Image& image) {
  return {image.rgb.data(), 3, image.size, 3 * image.size.width, 3, 1};
}

Transform Of(Kind kind, int64_t size) { return {.kind = kind, .size = size}; }
Transform Flip(double p) { return {.kind = Kind::kHFlip, .p = p}; }
Transform ImageNet() {
  return {.kind = Kind::kNormalize, .mean = ImageNetMean(), .std = ImageNetStd()};
}

std::vector<float> Applied(const Transforms& transforms, const Image& image,
                           const DrawKey& key = {}) {
  const ImageSize size = *SizeAfter(transforms, image.size);
  std::vector<float> out(static_cast<size_t>(3 * size.height * size.width));
  ApplyTransforms(transforms, ViewOf(image), key, out.data());
  return out;
}

TEST(ImageCodec, DecodesToThePixelsOfPil) {
  for (const char* name :
       {"rgb.png", "grey.png", "alpha.png", "grey_alpha.png", "palette.png", "one_bit.png",
        "grey16.png", "rgb.jpg", "grey.jpg", "progressive.jpg", "no_subsampling.jpg"}) {
    SCOPED_TRACE(name);
    const Image image = Decoded(name);
    EXPECT_EQ(image.size, (ImageSize{17, 23}));
    EXPECT_EQ(*ReadImageSize(File(name)), image.size);
    const auto expected = Expected(name).as<uint8_t>();
    EXPECT_EQ(image.rgb, std::vector<uint8_t>(expected.begin(), expected.end()));
  }
}

TEST(ImageCodec, WhatIsNotReadIsRefusedInWords) {
  EXPECT_THAT(ReadImageSize(File("cmyk.jpg")).status().ToString(),
              HasSubstr("UNIMPLEMENTED: it is a JPEG in CMYK"));
  EXPECT_THAT(DecodeImage(File("cmyk.jpg")).status().ToString(), HasSubstr("CMYK"));
  EXPECT_THAT(DecodeImage("GIF89a").status().ToString(), HasSubstr("it is a GIF"));
  EXPECT_THAT(DecodeImage("").status().ToString(), HasSubstr("neither PNG nor JPEG"));
}

TEST(ImageCodec, BombsAreRefusedByTheirHeaders) {
  std::string png = File("rgb.png");
  png.replace(16, 8, std::string("\0\0\x40\0\0\0\x40\0", 8));  // 16,384 x 16,384
  EXPECT_THAT(ReadImageSize(png).status().message(), HasSubstr("more than the limit of 33554432"));
  EXPECT_FALSE(DecodeImage(png).ok());
  std::string jpeg = File("rgb.jpg");
  const size_t frame = jpeg.find(std::string("\xff\xc0\0\x11\x08", 5));
  ASSERT_NE(frame, std::string::npos);
  jpeg.replace(frame + 5, 4, "\x7f\xff\x7f\xff");
  EXPECT_THAT(ReadImageSize(jpeg).status().message(), HasSubstr("more than the limit of 33554432"));
  EXPECT_FALSE(DecodeImage(jpeg).ok());
}

TEST(ImageCodec, CutAnywhereTheyAreRefused) {
  for (const char* name : {"rgb.png", "palette.png", "rgb.jpg", "grey.jpg", "progressive.jpg"}) {
    SCOPED_TRACE(name);
    const std::string file = File(name);
    for (size_t length = 0; length < file.size(); ++length) {
      const std::string cut = file.substr(0, length);
      // All pixels may be there before the end of the file.
      if (length + 20 < file.size()) {
        EXPECT_FALSE(DecodeImage(cut).ok()) << length;
      }
      const auto size = ReadImageSize(cut);
      if (size.ok()) {
        EXPECT_EQ(*size, (ImageSize{17, 23}));
      }
    }
  }
}

TEST(ImageCodec, DamageIsRefusedOrDecodedButNeverCrashes) {
  int refused = 0;
  for (const char* name : {"rgb.png", "grey16.png", "rgb.jpg", "progressive.jpg", "cmyk.jpg"}) {
    for (unsigned seed = 0; seed < 1500; ++seed) {
      std::mt19937 random(seed);
      std::string file = File(name);
      for (unsigned i = 1 + random() % 4; i > 0; --i) {
        file[random() % file.size()] = static_cast<char>(random() % 4 == 0 ? 0xff : random());
      }
      const auto image = DecodeImage(file);
      refused += image.ok() ? 0 : 1;
      if (image.ok()) {
        EXPECT_EQ(static_cast<int64_t>(image->rgb.size()),
                  3 * image->size.height * image->size.width);
      }
    }
  }
  EXPECT_GT(refused, 3000);
}

TEST(Resample, GivesThePixelsOfPil) {
  const Image image = Decoded("rgb.png");
  for (const auto& [width, height] :
       std::vector<std::pair<int, int>>{{8, 8}, {40, 31}, {11, 17}, {23, 50}, {1, 1}}) {
    SCOPED_TRACE(absl::StrCat(width, " x ", height));
    const Planes planes = Resized(ViewOf(image), {height, width});
    const auto expected = Expected(absl::StrCat("resized ", width, "x", height)).as<uint8_t>();
    ASSERT_EQ(planes.data.size(), expected.size());
    for (int c = 0; c < 3; ++c) {
      for (int i = 0; i < width * height; ++i) {
        ASSERT_EQ(planes.data[c * width * height + i], expected[i * 3 + c]) << c << " " << i;
      }
    }
  }
}

TEST(Transforms, GiveTheNumbersOfTorchvision) {
  const Image image = Decoded("rgb.png");
  const std::vector<std::pair<std::string, Transforms>> cases = {
      {"resize 12", {Of(Kind::kResize, 12)}},
      {"center_crop 10", {Of(Kind::kCenterCrop, 10)}},
      {"center_crop 20", {Of(Kind::kCenterCrop, 20)}},
      {"center_crop 30", {Of(Kind::kCenterCrop, 30)}},
      {"resize 12, center_crop 10, normalize",
       {Of(Kind::kResize, 12), Of(Kind::kCenterCrop, 10), ImageNet()}},
      {"hflip", {Flip(1)}},
  };
  for (const auto& [name, transforms] : cases) {
    SCOPED_TRACE(name);
    const std::vector<float> out = Applied(transforms, image);
    const HostTensor& expected = Expected(name);
    const ImageSize size = *SizeAfter(transforms, image.size);
    EXPECT_EQ(expected.type.shape, (graph::Shape{3, size.height, size.width}));
    ASSERT_EQ(out.size(), expected.as<float>().size());
    for (size_t i = 0; i < out.size(); ++i) {
      ASSERT_NEAR(out[i], expected.as<float>()[i], 1e-6) << i;  // the order of f32 operations
    }
  }
}

TEST(Transforms, DrawsDependOnSeedEpochAndRowAlone) {
  const Image image = Decoded("rgb.png");
  const Transforms transforms = {Of(Kind::kRandomResizedCrop, 9), Flip(0.5)};
  const std::vector<float> one = Applied(transforms, image, {1, 2, 3});
  EXPECT_EQ(one, Applied(transforms, image, {1, 2, 3}));
  EXPECT_NE(one, Applied(transforms, image, {2, 2, 3}));
  EXPECT_NE(one, Applied(transforms, image, {1, 3, 3}));
  EXPECT_NE(one, Applied(transforms, image, {1, 2, 4}));
}

// Pixels that say where they are: red is x, green is y.
Image Map(int64_t height, int64_t width) {
  Image image{{height, width}, {}};
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t x = 0; x < width; ++x) {
      for (const int64_t v : {x + 1, y + 1, int64_t{7}}) {
        image.rgb.push_back(static_cast<uint8_t>(v));
      }
    }
  }
  return image;
}

TEST(Transforms, RandomCropMovesBySoMuchAndNoMore) {
  const Image image = Map(6, 8);
  std::set<std::pair<int, int>> moves;
  for (int64_t row = 0; row < 600; ++row) {
    const std::vector<float> out = Applied({Of(Kind::kRandomCrop, 2)}, image, {1, 0, row});
    ASSERT_EQ(out.size(), 3u * 6 * 8);
    // The middle is never black.
    const size_t middle = 3 * 8 + 4;
    const int x = static_cast<int>(std::lround(out[middle] * 255)) - 1;
    const int y = static_cast<int>(std::lround(out[48 + middle] * 255)) - 1;
    moves.insert({x - 4, y - 3});
  }
  EXPECT_EQ(moves.size(), 25u);
  for (const auto& [x, y] : moves) {
    EXPECT_LE(std::abs(x), 2);
    EXPECT_LE(std::abs(y), 2);
  }
}

TEST(Transforms, FlipsAsOftenAsAsked) {
  const Image image = Map(1, 2);
  int flips = 0;
  for (int64_t row = 0; row < 4000; ++row) {
    flips += Applied({Flip(0.25)}, image, {9, 0, row})[0] > 1.5f / 255 ? 1 : 0;
  }
  EXPECT_NEAR(flips, 1000, 110);  // four standard deviations
  EXPECT_GT(Applied({Flip(1)}, image)[0], 1.5f / 255);
  EXPECT_LT(Applied({Flip(0)}, image)[0], 1.5f / 255);
}

TEST(Transforms, RandomResizedCropTakesPartsAsTorchvisionDoes) {
  // Of a gradient, the mean over the output is the middle of the part, and its slope the part's
  // width.
  const Image image = Map(200, 250);
  double area = 0, least = 1, most = 0;
  for (int64_t row = 0; row < 400; ++row) {
    const std::vector<float> out = Applied({Of(Kind::kRandomResizedCrop, 4)}, image, {3, 1, row});
    const double width = (out[3] - out[0]) * 255 * 4 / 3;
    const double height = (out[16 + 12] - out[16]) * 255 * 4 / 3;
    const double part = width * height / (200 * 250);
    area += part / 400;
    least = std::min(least, part);
    most = std::max(most, part);
  }
  EXPECT_GT(least, 0.06);
  EXPECT_LT(most, 1);
  // torchvision's mean over 20,000 draws, measured in this way, with a deviation of 0.198.
  EXPECT_NEAR(area, 0.397, 4 * 0.198 / 20);
}

TEST(Transforms, MistakesAreNamed) {
  const auto error = [](Transforms t) { return std::string(CheckTransforms(t).message()); };
  EXPECT_EQ(error({Of(Kind::kResize, 8), Flip(0.5), ImageNet()}), "");
  EXPECT_THAT(error({Of(Kind::kResize, 0)}), HasSubstr("[0] says 0 pixels"));
  EXPECT_THAT(error({Flip(0.5), Flip(1.5)}), HasSubstr("[1].hflip.p is 1.5"));
  EXPECT_THAT(error({ImageNet(), Flip(1)}), HasSubstr("normalize is not the last"));
  EXPECT_THAT(error({{.kind = Kind::kNormalize, .mean = {0}}}), HasSubstr("both mean and std"));
  EXPECT_THAT(error({{.kind = Kind::kNormalize, .mean = {0}, .std = {0}}}),
              HasSubstr(".std has 0"));
  EXPECT_THAT(CheckChannels(Transforms{ImageNet()}, 1).message(),
              HasSubstr("has 3 values, but images have 1 channels"));
  EXPECT_THAT(SizeAfter(Transforms{Of(Kind::kResize, 1000)}, {1, 1000000}).status().message(),
              HasSubstr("more than the limit"));
}

// Files that are there or not, in memory.
class MapFiles : public ImageFiles {
 public:
  absl::StatusOr<std::string> Read(const std::string& path, int64_t most) const override {
    const auto it = files.find(path);
    if (it == files.end()) return absl::NotFoundError("it is gone");
    return it->second.substr(0, static_cast<size_t>(most));
  }
  std::map<std::string, std::string> files;
};

TEST(ListImages, AreInTheOrderOfTorchvision) {
  const auto list = ListImages({"dog/b.PNG", "cat/z.jpg", "dog/a.jpeg", "cat/sub/a.jpg",
                                "cat/readme.txt", "cat/.hidden.png", "cat-2/x.png", "notes.md"});
  ASSERT_TRUE(list.ok()) << list.status();
  EXPECT_THAT(list->classes, ElementsAre("cat", "cat-2", "dog"));
  EXPECT_THAT(list->paths,
              ElementsAre("cat/z.jpg", "cat/sub/a.jpg", "cat-2/x.png", "dog/a.jpeg", "dog/b.PNG"));
  EXPECT_THAT(list->labels, ElementsAre(0, 0, 1, 2, 2));
  EXPECT_THAT(ListImages({"a/b.txt"}).status().message(), HasSubstr("no .png, .jpg or .jpeg"));
  EXPECT_THAT(ListImages({"b.png"}).status().message(), HasSubstr("\"b.png\" is in no class"));
  EXPECT_TRUE(ListImages({"a/", "a/b.png"}).ok());
  EXPECT_THAT(ListImages({"a/b.png", "b/", "a/"}).status().message(),
              HasSubstr("\"b\" is a class without an image"));
  EXPECT_THAT(ListImages({"a/b.webp"}).status().message(), HasSubstr("is no PNG and no JPEG"));
}

TEST(ImageSet, ReadsHeadersAndNamesTheFileThatIsWrong) {
  auto files = std::make_shared<MapFiles>();
  files->files = {{"a/1.png", File("rgb.png")}, {"b/2.jpg", File("rgb.jpg")}};
  const auto set = ImageSet::Create(*ListImages({"a/1.png", "b/2.jpg"}), files);
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_EQ((*set)->rows(), 2);
  EXPECT_EQ((*set)->size(1), (ImageSize{17, 23}));
  EXPECT_TRUE((*set)->Decode(1).ok());
  files->files["b/2.jpg"].resize(700);
  EXPECT_THAT((*set)->Decode(1).status().message(),
              HasSubstr("\"b/2.jpg\": JPEG: the file is cut"));
  files->files["b/2.jpg"] = File("cmyk.jpg");
  EXPECT_THAT(ImageSet::Create(*ListImages({"a/1.png", "b/2.jpg"}), files).status().ToString(),
              HasSubstr("\"b/2.jpg\": it is a JPEG in CMYK"));
  files->files["b/2.jpg"] = "\xff\xd8\xff";
  EXPECT_THAT(ImageSet::Create(*ListImages({"a/1.png", "b/2.jpg"}), files).status().ToString(),
              HasSubstr("INVALID_ARGUMENT: \"b/2.jpg\""));
  files->files.erase("b/2.jpg");
  EXPECT_THAT((*set)->Decode(1).status().message(), HasSubstr("it is gone"));
}

TEST(ImageZip, IsAFolder) {
  for (const std::string top : {"", "pets/"}) {
    const std::string zip = Zip({{top + "b/2.jpg", File("rgb.jpg")},
                                 {top + "a/1.png", File("rgb.png")},
                                 {top + "a/notes.txt", "x"}},
                                ZipMethod::kDeflate);
    const auto set = ParseImageZip(zip, MiB(1), nullptr);
    ASSERT_TRUE(set.ok()) << set.status();
    EXPECT_THAT((*set)->list().classes, ElementsAre("a", "b"));
    EXPECT_THAT((*set)->list().paths, ElementsAre("a/1.png", "b/2.jpg"));
    EXPECT_TRUE((*set)->Decode(0).ok());
    EXPECT_GE((*set)->bytes(), Bytes(1500));
    for (size_t length = 0; length < zip.size(); length += 7) {
      EXPECT_FALSE(ParseImageZip(zip.substr(0, length), MiB(1), nullptr).ok()) << length;
    }
    EXPECT_EQ(ParseImageZip(zip, KiB(1), nullptr).status().code(),
              absl::StatusCode::kResourceExhausted);
  }
}

BatchSource TwoImages(std::shared_ptr<MapFiles> files, const Transforms& transforms) {
  files->files = {{"a/1.png", File("rgb.png")}, {"b/2.jpg", File("rgb.jpg")}};
  BatchSource source;
  source.data = DataSet::OfImages(*ImageSet::Create(*ListImages({"a/1.png", "b/2.jpg"}), files));
  source.rows = {0, 1};
  source.image = *ImageFieldOf(*source.data, "", transforms);
  source.bindings = {{.field = "image", .type = {DType::kF32, {2, 3, 8, 8}}},
                     {.field = "label", .type = {DType::kI64, {2}}, .label_classes = 2}};
  source.batch_size = 2;
  return source;
}

TEST(ImageBatches, AreDecodedAndDoNotDependOnTheirNeighbours) {
  auto files = std::make_shared<MapFiles>();
  const Transforms transforms = {Of(Kind::kRandomResizedCrop, 8), Flip(0.5), ImageNet()};
  BatchSource source = TwoImages(files, transforms);
  ASSERT_TRUE(Validate(source).ok()) << Validate(source);
  std::vector<float> image(2 * 3 * 8 * 8), swapped(image.size());
  std::vector<int64_t> label(2);
  ASSERT_EQ(*FillBatch(source, {1, 0}, {5, 0}, {image.data(), label.data()}), 2);
  EXPECT_THAT(label, ElementsAre(1, 0));
  std::vector<float> alone = Applied(transforms, Decoded("rgb.jpg"), {0, 5, 1});
  EXPECT_TRUE(std::equal(alone.begin(), alone.end(), image.begin()));
  ASSERT_TRUE(FillBatch(source, {0, 1}, {5, 0}, {swapped.data(), label.data()}).ok());
  EXPECT_TRUE(std::equal(alone.begin(), alone.end(), swapped.begin() + 3 * 8 * 8));

  source.tail = BatchSource::Tail::kPad;
  source.rows = {1};
  ASSERT_EQ(*FillBatch(source, {1}, {5, 0}, {image.data(), label.data()}), 1);
  EXPECT_TRUE(std::equal(alone.begin(), alone.end(), image.begin() + 3 * 8 * 8));

  files->files["b/2.jpg"].resize(700);
  EXPECT_THAT(FillBatch(source, {1}, {5, 0}, {image.data(), label.data()}).status().message(),
              HasSubstr("\"b/2.jpg\""));
}

TEST(ImageBatches, WhatDoesNotFitTheModelIsRefusedInWords) {
  auto files = std::make_shared<MapFiles>();
  const auto error = [&](const Transforms& transforms, graph::Shape shape) {
    BatchSource source = TwoImages(files, transforms);
    source.bindings[0].type.shape = std::move(shape);
    return std::string(Validate(source).message());
  };
  EXPECT_THAT(error({}, {2, 3, 8, 8}),
              HasSubstr("\"a/1.png\" becomes [3,17,23], but the model input takes [3,8,8]; bring "
                        "all images to its size by data.augment"));
  EXPECT_EQ(error({}, {2, 3, 17, 23}), "");
  EXPECT_THAT(error({Of(Kind::kCenterCrop, 8)}, {2, 1, 8, 8}), HasSubstr("becomes [3,8,8]"));
  BatchSource source = TwoImages(files, {Of(Kind::kCenterCrop, 8)});
  source.bindings[0].type.dtype = DType::kI32;
  EXPECT_THAT(Validate(source).message(), HasSubstr("images, which become f32"));
  source = TwoImages(files, {Of(Kind::kCenterCrop, 8)});
  source.bindings[0].slice.from = 1;
  EXPECT_THAT(Validate(source).message(), HasSubstr("bind it without a slice"));
  source.bindings.erase(source.bindings.begin());
  EXPECT_THAT(Validate(source).message(), HasSubstr("feeds no model input"));
}

TEST(ImageBatches, AugmentU8Arrays) {
  std::map<std::string, HostTensor> fields;
  fields["x"] = HostTensor::Of<uint8_t>(DType::kU8, {2, 1, 2, 2}, {0, 51, 102, 255, 1, 2, 3, 4});
  fields["y"] = HostTensor::Of<int64_t>(DType::kI64, {2}, {0, 1});
  BatchSource source;
  source.data = *DataSet::Create(fields);
  source.rows = {0, 1};
  source.image = *ImageFieldOf(*source.data, "",
                               {Flip(1), {.kind = Kind::kNormalize, .mean = {0.5}, .std = {0.5}}});
  EXPECT_EQ(source.image->field, "x");
  source.bindings = {{.field = "x", .type = {DType::kF32, {1, 1, 2, 2}}}};
  ASSERT_TRUE(Validate(source).ok()) << Validate(source);
  std::vector<float> out(4);
  ASSERT_TRUE(FillBatch(source, {0, 1}, {0, 0}, {out.data()}).ok());
  EXPECT_FLOAT_EQ(out[0], -0.6f);
  EXPECT_FLOAT_EQ(out[1], -1);
  EXPECT_FLOAT_EQ(out[2], 1);
  EXPECT_FLOAT_EQ(out[3], -0.2f);
  EXPECT_THAT(ImageFieldOf(*source.data, "y", {}).status().message(),
              HasSubstr("\"y\" cannot be augmented; fields of u8 rows [channels, height, width] "
                        "are x"));
  fields["z"] = fields["x"];
  EXPECT_THAT(ImageFieldOf(**DataSet::Create(fields), "", {}).status().message(),
              HasSubstr("are x, z; say field"));
}

}  // namespace
}  // namespace ebb::data
