// Each format by example: what is read, and what is refused in which words.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "data/dataset.h"
#include "data/gzip.h"
#include "data/parquet.h"
#include "tests/data/files.h"

namespace ebb::data {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Set = std::shared_ptr<const DataSet>;

// The only field of the data set that `file` holds.
graph::HostTensor OnlyField(const std::string& file) {
  const absl::StatusOr<Set> set = ParseDataSet(file);
  EXPECT_TRUE(set.ok()) << set.status();
  if (!set.ok() || (*set)->fields().size() != 1) return {};
  EXPECT_EQ((*set)->fields().begin()->first, "data");
  return (*set)->fields().begin()->second;
}

std::string Error(const std::string& file, const CsvOptions& csv = {},
                  Bytes limit = kMaxDataSetBytes) {
  const absl::StatusOr<Set> set = ParseDataSet(file, {.csv = csv}, limit);
  return set.ok() ? "accepted" : set.status().ToString();
}

std::string TypeOf(const graph::HostTensor& tensor) { return ToString(tensor.type); }

TEST(Npy, ReadsEveryElementTypeAndWidensWhatGraphsLack) {
  EXPECT_THAT(OnlyField(Npy("<f4", "(2,)", BytesOf<float>({1.5, -2}))).as<float>(),
              ElementsAre(1.5, -2));
  EXPECT_THAT(OnlyField(Npy("<f8", "(2,)", BytesOf<double>({1.5, -2}))).as<double>(),
              ElementsAre(1.5, -2));
  EXPECT_THAT(OnlyField(Npy("|u1", "(2,)", BytesOf<uint8_t>({7, 255}))).as<uint8_t>(),
              ElementsAre(7, 255));
  EXPECT_THAT(OnlyField(Npy("|i1", "(2,)", BytesOf<int8_t>({7, -8}))).as<int32_t>(),
              ElementsAre(7, -8));
  EXPECT_THAT(OnlyField(Npy("<i2", "(2,)", BytesOf<int16_t>({700, -8}))).as<int32_t>(),
              ElementsAre(700, -8));
  EXPECT_THAT(OnlyField(Npy("<u2", "(1,)", BytesOf<uint16_t>({65535}))).as<int32_t>(),
              ElementsAre(65535));
  EXPECT_THAT(OnlyField(Npy("<i4", "(1,)", BytesOf<int32_t>({-70000}))).as<int32_t>(),
              ElementsAre(-70000));
  EXPECT_THAT(OnlyField(Npy("<u4", "(1,)", BytesOf<uint32_t>({4000000000}))).as<int64_t>(),
              ElementsAre(4000000000));
  EXPECT_THAT(OnlyField(Npy("<i8", "(1,)", BytesOf<int64_t>({-1}))).as<int64_t>(), ElementsAre(-1));
  const graph::HostTensor flags = OnlyField(Npy("|b1", "(3,)", std::string("\0\1\7", 3)));
  EXPECT_EQ(TypeOf(flags), "bool[3]");
  EXPECT_THAT(flags.as<uint8_t>(), ElementsAre(0, 1, 1));
}

TEST(Safetensors, TensorsAreFieldsAndAreWidened) {
  const absl::StatusOr<Set> set = ParseDataSet(Fixture("plain.safetensors"));
  ASSERT_TRUE(set.ok()) << set.status();
  const auto& fields = (*set)->fields();
  EXPECT_EQ((*set)->rows(), 4);
  ASSERT_EQ(fields.size(), 6u);
  EXPECT_EQ(TypeOf(fields.at("x")), "f32[4,3]");
  EXPECT_EQ(fields.at("x").as<float>()[11], 2.75);
  EXPECT_THAT(fields.at("half").as<float>(), ElementsAre(1.5, -2, 0, 65504));
  EXPECT_THAT(fields.at("label").as<int64_t>(), ElementsAre(0, 1, 2, -1));
  EXPECT_THAT(fields.at("u16").as<int32_t>(), ElementsAre(1, 2, 3, 65535));
  EXPECT_THAT(fields.at("flag").as<uint8_t>(), ElementsAre(1, 0, 1, 1));
  EXPECT_EQ(TypeOf(fields.at("u8")), "u8[4,2]");
}

TEST(Safetensors, WhatIsNoDataSetIsRefusedInWords) {
  const auto file = [](const std::string& header, const std::string& data) {
    const char length[] = {static_cast<char>(header.size()), 0, 0, 0, 0, 0, 0, 0};
    return std::string(length, 8) + header + data;
  };
  EXPECT_THAT(Error(file(R"({"w":{"dtype":"BF16","shape":[1],"data_offsets":[0,2]}})", "ab")),
              AllOf(HasSubstr("UNIMPLEMENTED"), HasSubstr("tensor \"w\""), HasSubstr("BF16")));
  EXPECT_THAT(Error(file(R"({"w":{"dtype":"U8","shape":[3],"data_offsets":[0,2]}})", "ab")),
              HasSubstr("= 3 bytes, but 2 bytes follow"));
  EXPECT_THAT(Error(file(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                         R"("w":{"dtype":"U8","shape":[],"data_offsets":[1,2]}})",
                         "ab")),
              HasSubstr("\"w\" is a scalar"));
  EXPECT_THAT(Error(file("{}", "")), HasSubstr("there is no tensor in it"));
  EXPECT_THAT(Error(Fixture("plain.safetensors"), {}, Bytes(40)),
              AllOf(HasSubstr("RESOURCE_EXHAUSTED"), HasSubstr("limit of 40 B")));
}

TEST(Parquet, WithoutArrowTheMessageSaysWhatToDo) {
  if (ReadsParquet()) GTEST_SKIP() << "this build reads Parquet";
  EXPECT_THAT(Error(Fixture("plain.parquet")),
              AllOf(HasSubstr("UNIMPLEMENTED"), HasSubstr("was built without Arrow")));
}

TEST(Npy, ALabelColumnIsRefusedSinceArraysHaveNoColumns) {
  const absl::Status status =
      ParseDataSet(Npy("<f4", "(1,)", BytesOf<float>({1})), {.csv = {.label_column = 0}}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("label_column is for CSV"));
}

TEST(Npy, SwapsBigEndianElements) {
  EXPECT_THAT(OnlyField(Npy(">i2", "(2,)", std::string("\x01\x02\xff\xfe", 4))).as<int32_t>(),
              ElementsAre(0x0102, -2));
  const graph::HostTensor tensor = OnlyField(Fixture("big_endian.npy"));
  EXPECT_EQ(TypeOf(tensor), "f32[4,3]");
  EXPECT_EQ(tensor.as<float>()[11], 11);
}

TEST(Npy, ReadsHalfPrecisionExactly) {
  const graph::HostTensor tensor = OnlyField(Fixture("half.npy"));
  EXPECT_THAT(tensor.as<float>(), ElementsAre(0, 1, -2.5, 65504, std::ldexp(1.0f, -24),
                                              std::numeric_limits<float>::infinity(), -0.0f));
}

TEST(Npy, ReadsVersion3) { EXPECT_EQ(TypeOf(OnlyField(Fixture("version3.npy"))), "f32[4,3]"); }

TEST(Npy, RefusesByNameWhatItCannotRepresent) {
  EXPECT_THAT(Error(Fixture("fortran.npy")), HasSubstr("save numpy.ascontiguousarray(array)"));
  EXPECT_THAT(Error(Fixture("objects.npy")), HasSubstr("Python objects"));
  EXPECT_THAT(Error(Fixture("complex.npy")), HasSubstr("element type \"<c8\" is not supported"));
  EXPECT_THAT(Error(Fixture("structured.npy")), HasSubstr("structured arrays"));
  EXPECT_THAT(Error(Npy("<u8", "(1,)", std::string(8, '\0'))),
              HasSubstr("element type u8 is not supported"));
  EXPECT_THAT(Error(Npy("<M8[ns]", "(1,)", std::string(8, '\0'))), HasSubstr("<M8[ns]"));
}

TEST(Npy, AcceptsFortranOrderWhereItMeansNothing) {
  EXPECT_EQ(TypeOf(OnlyField(Npy("|u1", "(3,)", "abc", "True"))), "u8[3]");
}

TEST(Npy, ChecksTheDeclaredSizeBeforeAllocating) {
  EXPECT_THAT(Error(Npy("<f4", "(1000000, 1000000, 100)", "1234")),
              HasSubstr("shape [1000000,1000000,100] of 4-byte elements = 400000000000000 bytes, "
                        "but 4 bytes follow"));
  EXPECT_THAT(Error(Npy("<f4", "(9000000000000000000, 9000000000000000000)", "1234")),
              HasSubstr("more than can exist"));
  EXPECT_THAT(Error(Npy("<f4", "(0, 9000000000000000000, 9000000000000000000)", "")),
              HasSubstr("more than can exist"));
  EXPECT_THAT(Error(Npy("<f4", "(1,)", "12345")), HasSubstr("but 5 bytes follow"));
}

TEST(Npy, RefusesMalformedHeaders) {
  for (const char* header :
       {"", "{", "{}", "{'descr': '<f4'}", "{'descr': '<f4', 'descr': '<f4'}",
        "{'descr': '<f4', 'fortran_order': Maybe, 'shape': (1,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': 1}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1 1)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} x",
        "{'descr': '<f4' 'fortran_order': False, 'shape': (1,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'evil': (1,)}"}) {
    EXPECT_THAT(Error(NpyWithHeader(header, "1234")), HasSubstr("npy header: ")) << header;
  }
  EXPECT_THAT(Error(std::string("\x93NUMPY\x04\x00\x00\x00\x00\x00", 12)), HasSubstr("version 4"));
}

TEST(DataSet, RefusesScalarsAndFieldsWithoutElements) {
  EXPECT_THAT(Error(Npy("<f4", "()", "1234")), HasSubstr("is a scalar"));
  EXPECT_THAT(Error(Npy("<f4", "(0, 3)", "")), HasSubstr("shape [0,3] has no elements"));
}

TEST(Npz, ReadsWhatNumpyWrites) {
  for (const char* name : {"plain.npz", "compressed.npz"}) {
    const absl::StatusOr<Set> set = ParseDataSet(Fixture(name));
    ASSERT_TRUE(set.ok()) << name << ": " << set.status();
    EXPECT_EQ((*set)->rows(), 4);
    EXPECT_EQ((*set)->bytes(), Bytes(4 * 3 * 4 + 4 * 8));
    EXPECT_THAT((*set)->fields().at("y").as<int64_t>(), ElementsAre(0, 1, 2, 1));
    EXPECT_EQ(TypeOf((*set)->fields().at("x")), "f32[4,3]");
    EXPECT_EQ((*set)->fields().at("x").as<float>()[11], 11);
  }
}

TEST(Npz, NamesBothFieldsWhoseRowCountsDiffer) {
  const std::string file =
      Zip({{"a.npy", Npy("|u1", "(2,)", "12")}, {"b.npy", Npy("|u1", "(3,)", "123")}});
  EXPECT_THAT(Error(file), HasSubstr("field \"a\" has 2 rows but field \"b\" has 3"));
}

TEST(Npz, RefusesForeignEntriesAndDuplicatesByName) {
  const std::string npy = Npy("|u1", "(2,)", "12");
  EXPECT_THAT(Error(Zip({{"archive/data.pkl", npy}})),
              HasSubstr("\"archive/data.pkl\" is not a .npy array"));
  EXPECT_THAT(Error(Zip({{"a.npy", npy}, {"a.npy", npy}})), HasSubstr("twice"));
  EXPECT_THAT(Error(Zip({{"a b.npy", npy}})), HasSubstr("rename it"));
  EXPECT_THAT(Error(Zip({})), HasSubstr("npz: "));
  EXPECT_THAT(Error(Zip({{"a.npy", Npy("|O", "(1,)", "1")}})),
              AllOf(HasSubstr("entry \"a.npy\""), HasSubstr("Python objects")));
}

TEST(Npz, StopsAtTheLimitOverAllEntries) {
  const std::string npy = Npy("|u1", "(100000,)", std::string(100000, 'a'));
  const std::string file = Zip({{"a.npy", npy}, {"b.npy", npy}}, ZipMethod::kDeflate);
  EXPECT_THAT(Error(file, {}, KiB(150)),
              AllOf(HasSubstr("RESOURCE_EXHAUSTED"), HasSubstr("150.0 KiB")));
  EXPECT_EQ(Error(file, {}, KiB(200)), "accepted");
}

TEST(Npz, DoesNotBelieveAnEntryThatClaimsMoreThanDeflateCanMake) {
  std::string file = Zip({{"a.npy", Npy("|u1", "(3,)", "123")}}, ZipMethod::kDeflate);
  const std::string huge("\x00\x00\x00\x70", 4);  // 1.75 GiB as the uncompressed size
  file.replace(file.find("PK\x01\x02") + 24, 4, huge);
  file.replace(file.find("PK\x03\x04") + 22, 4, huge);
  EXPECT_THAT(Error(file), HasSubstr("larger than it can be"));
}

TEST(Npz, FindsADamagedChecksum) {
  std::string file = Zip({{"a.npy", Npy("|u1", "(3,)", "123")}});
  file[file.find("123") + 1] ^= 1;
  EXPECT_THAT(Error(file), AllOf(HasSubstr("INVALID_ARGUMENT"), HasSubstr("npz: ")));
}

TEST(Gzip, WrapsEveryFormatButOnce) {
  const std::string npy = Npy("|u1", "(3,)", "123");
  EXPECT_EQ(TypeOf(OnlyField(Gzip(npy))), "u8[3]");
  EXPECT_EQ(Error(Gzip("1,2\n")), "accepted");
  EXPECT_THAT(Error(Gzip(Gzip(npy))), HasSubstr("twice"));
}

TEST(Gzip, ReadsAllMembers) {
  const absl::StatusOr<std::string> text = Gunzip(Gzip("one ") + Gzip("") + Gzip("two"), KiB(1));
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(*text, "one two");
}

TEST(Gzip, UnpacksMoreThanItsChunkAndStopsAtTheLimit) {
  const std::string text(1000000, 'a');
  const std::string packed = Gzip(text);
  ASSERT_LT(packed.size(), 2000u);
  EXPECT_TRUE(*Gunzip(packed, Bytes(1000000)) == text);
  EXPECT_EQ(Gunzip(packed, Bytes(999999)).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST(Idx, ReadsMnistsFormat) {
  const graph::HostTensor images = OnlyField(Idx(0x08, {2, 1, 2}, "abcd"));
  EXPECT_EQ(TypeOf(images), "u8[2,1,2]");
  EXPECT_EQ(images.as<uint8_t>()[3], 'd');
  EXPECT_THAT(OnlyField(Idx(0x0C, {1}, std::string("\xff\xff\xff\xfe", 4))).as<int32_t>(),
              ElementsAre(-2));
  EXPECT_THAT(OnlyField(Idx(0x0D, {1}, std::string("\x3f\x80\x00\x00", 4))).as<float>(),
              ElementsAre(1));
}

TEST(Idx, ChecksTheDeclaredSizeBeforeAllocating) {
  EXPECT_THAT(Error(Idx(0x08, {0xffffffff, 0xffffffff}, "abcd")), HasSubstr("but 4 bytes follow"));
  EXPECT_THAT(Error(Idx(0x08, {0xffffffff, 0xffffffff, 0xffffffff}, "abcd")),
              HasSubstr("more than can exist"));
  EXPECT_THAT(Error(std::string("\0\0\x08\x03\0\0\0\1", 8)), HasSubstr("header of 16 bytes"));
}

TEST(DataSet, NamesForeignFormats) {
  EXPECT_THAT(Error(std::string("\x89HDF\r\n\x1a\n", 8)), HasSubstr("HDF5 is not a supported"));
  EXPECT_THAT(Error("PAR1 and so on"), HasSubstr("Parquet"));
  EXPECT_THAT(Error(std::string("\x01\x00\x02", 3)), HasSubstr("in no known format"));
  EXPECT_THAT(Error(""), HasSubstr("empty"));
}

TEST(Index, ReadsArraysAndText) {
  EXPECT_THAT(*ParseIndex(Npy("<i8", "(3,)", BytesOf<int64_t>({5, 0, 2}))), ElementsAre(5, 0, 2));
  EXPECT_THAT(*ParseIndex(Npy("|u1", "(2,)", "\x05\x06")), ElementsAre(5, 6));
  EXPECT_THAT(*ParseIndex(Zip({{"i.npy", Npy("<i2", "(1,)", BytesOf<int16_t>({9}))}})),
              ElementsAre(9));
  EXPECT_THAT(*ParseIndex("3\r\n\n 1 \n2"), ElementsAre(3, 1, 2));
  EXPECT_THAT(*ParseIndex(Gzip("3\n1\n")), ElementsAre(3, 1));
}

TEST(Index, SaysWhatIsWrong) {
  const auto error = [](const std::string& file) { return ParseIndex(file).status().ToString(); };
  EXPECT_THAT(error("1\n2.5\n"), HasSubstr("index line 2: \"2.5\" is not a whole number"));
  EXPECT_THAT(error(""), HasSubstr("lists no row"));
  EXPECT_THAT(error(Npy("|b1", "(1,)", "\x01")), HasSubstr("numpy.flatnonzero(mask)"));
  EXPECT_THAT(error(Npy("<f4", "(1,)", "1234")), HasSubstr("save it as int64"));
  EXPECT_THAT(error(Npy("|u1", "(1, 1)", "1")), HasSubstr("one dimension"));
  EXPECT_THAT(error(Fixture("plain.npz")), HasSubstr("has 2 arrays"));
}

}  // namespace
}  // namespace ebb::data
