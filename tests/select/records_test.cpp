#include "tetrad/records.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "select/fixture.hpp"

namespace tetrad {
namespace {

EvidenceRecord record(Evidence evidence, std::string digest, std::string device) {
  EvidenceRecord r;
  r.kernel = "k";
  r.evidence = evidence;
  r.digest = std::move(digest);
  r.device = std::move(device);
  r.date = "2026-11-29T00:00:00Z";
  r.command = "tetrad probe k";
  return r;
}

TEST(Records, AChangedDigestDropsEvidenceToBuilt) {
  Records records;
  records.evidence = {record(Evidence::disassembled, "a", "other"), record(Evidence::measured, "a", "lab")};
  EXPECT_EQ(evidence_of(records, "k", "lab", true, "a"), Evidence::measured);
  EXPECT_EQ(evidence_of(records, "k", "lab", true, "b"), Evidence::built);
  EXPECT_EQ(evidence_of(records, "k", "lab", false, "a"), Evidence::declared);
  EXPECT_EQ(evidence_of(records, "k", "third", true, "a"), Evidence::disassembled);
  EXPECT_EQ(evidence_of(records, "unseen", "lab", true, "a"), Evidence::built);
}

TEST(Records, APlanShowsTheDrop) {
  Records records;
  records.evidence = {record(Evidence::probed, "d1", "lab")};
  Candidate k = test::row("k");
  EXPECT_EQ(test::plan({k}, {}, test::problem(), test::lab(), records)->choices[0].evidence, Evidence::probed);
  k.digest = "d2";
  EXPECT_EQ(test::plan({k}, {}, test::problem(), test::lab(), records)->choices[0].evidence, Evidence::built);
}

TEST(Records, TheLastProbeDecides) {
  Records records;
  records.evidence = {record(Evidence::probed, "a", "lab"), record(Evidence::probed, "a", "lab")};
  records.evidence[0].failure = "hang";
  EXPECT_EQ(probe_failure(records, "k", "lab", "a"), "");
  records.evidence[1].failure = "wrong result";
  EXPECT_EQ(probe_failure(records, "k", "lab", "a"), "wrong result");
  EXPECT_EQ(probe_failure(records, "k", "lab", "b"), "");
}

TEST(Records, ALaterRecordReplacesItsLikeAndComesLast) {
  Records records;
  records.evidence = {record(Evidence::probed, "a", "lab"), record(Evidence::measured, "a", "lab"),
                      record(Evidence::probed, "b", "lab")};
  Records more;
  more.evidence = {record(Evidence::probed, "a", "lab")};
  more.evidence[0].failure = "wrong";
  merge_records(records, more);
  ASSERT_EQ(records.evidence.size(), 3U);
  EXPECT_EQ(records.evidence.back().failure, "wrong");
  EXPECT_EQ(probe_failure(records, "k", "lab", "a"), "wrong");
  more.evidence[0].failure.clear();
  merge_records(records, more);
  ASSERT_EQ(records.evidence.size(), 3U);
  EXPECT_EQ(probe_failure(records, "k", "lab", "a"), "");

  Measurement m;
  m.kernel = "k";
  m.device = "lab";
  m.problem = test::problem({7}).base;
  m.seconds = 1.0;
  more.measurements = {m};
  merge_records(records, more);
  more.measurements[0].seconds = 2.0;
  merge_records(records, more);
  ASSERT_EQ(records.measurements.size(), 1U);
  EXPECT_EQ(records.measurements[0].seconds, 2.0);
  more.measurements[0].problem.m = 8;
  merge_records(records, more);
  EXPECT_EQ(records.measurements.size(), 2U);
}

TEST(Records, AnotherCpusRecordsDoNotCountHere) {
  Records records;
  records.evidence = {record(Evidence::measured, "a", "host"), record(Evidence::measured, "a", "lab")};
  records.evidence[0].driver = "one cpu";
  EXPECT_EQ(evidence_of(records_here(records, "host", "one cpu"), "k", "host", true, "a"), Evidence::measured);
  const Records here = records_here(records, "host", "another cpu");
  EXPECT_EQ(evidence_of(here, "k", "host", true, "a"), Evidence::built);
  EXPECT_EQ(evidence_of(here, "k", "lab", true, "a"), Evidence::measured);
}

TEST(Records, WrittenFilesReadBack) {
  Records records;
  records.evidence = {record(Evidence::probed, "a", "lab")};
  records.evidence[0].failure = "hang";
  Measurement m;
  m.kernel = "k";
  m.device = "lab";
  m.problem = test::problem({7}).base;
  m.seconds = 1.25e-6;
  m.source = "bench";
  m.digest = "a";
  records.measurements = {m};
  m.seconds = 0.0;
  m.ratio = 3.5;
  m.ratio_of = "j";
  m.note = "n";
  records.measurements.push_back(m);
  records.costs = {{"k", "lab", {Unit::fp8, 0.25, 0.5, "fitted"}}};
  Records again;
  ASSERT_TRUE(read_records(records_to_json(records), "x.json", again));
  EXPECT_EQ(records_to_json(again), records_to_json(records));
  EXPECT_EQ(again.measurements[0].problem, records.measurements[0].problem);
  EXPECT_EQ(again.evidence[0].failure, "hang");
}

TEST(Records, BadFilesNameTheField) {
  struct Bad {
    const char* json;
    const char* where;
  };
  const Bad bad[] = {
      {"", "x.json"},
      {"{", "x.json"},
      {"[]", "x.json"},
      {R"({"schema": "tetrad.records/2.0"})", "x.json.schema"},
      {R"({"schema": "tetrad.records/1.0", "costs": 3})", "x.json.costs"},
      {R"({"schema": "tetrad.records/1.0", "costs": [3]})", "x.json: costs[0]"},
      {R"({"schema": "tetrad.records/1.0", "costs": [{"kernel": "k"}]})", "x.json: costs[0].device"},
      {R"({"schema": "tetrad.records/1.0", "costs": [{"kernel": "k", "device": "d", "unit": "fp5"}]})",
       "x.json: costs[0].unit"},
      {R"({"schema": "tetrad.records/1.0", "costs": [{"kernel": "k", "device": "d", "unit": "fp8",
          "memory_efficiency": 1.5, "compute_efficiency": 0.5, "source": "s"}]})",
       "x.json: costs[0].memory_efficiency"},
      {R"({"schema": "tetrad.records/1.0", "measurements": [{"kernel": "k", "device": "d", "problem": "m1 n16",
          "time_s": 1, "source": "s"}]})",
       "x.json: measurements[0].problem"},
      {R"({"schema": "tetrad.records/1.0", "measurements": [{"kernel": "k", "device": "d",
          "problem": "m1 n16 k16", "source": "s"}]})",
       "x.json: measurements[0].time_s"},
      {R"({"schema": "tetrad.records/1.0", "measurements": [{"kernel": "k", "device": "d",
          "problem": "m1 n16 k16", "ratio": 2, "source": "s"}]})",
       "x.json: measurements[0].ratio_of"},
      {R"({"schema": "tetrad.records/1.0", "measurements": [{"kernel": "k", "device": "d",
          "problem": "m1 n16 k16", "time_s": 1}]})",
       "x.json: measurements[0].source"},
  };
  for (const Bad& b : bad) {
    Records into;
    const Status status = read_records(b.json, "x.json", into);
    ASSERT_FALSE(status) << b.json;
    EXPECT_EQ(status.error().where, b.where) << b.json;
    EXPECT_EQ(status.error().kind, ErrorKind::input);
    EXPECT_FALSE(status.error().need.empty());
    EXPECT_TRUE(into.measurements.empty() && into.costs.empty());
  }
}

TEST(Records, TheLibrarysOwnFilesAllRead) {
  const Records& known = known_records();
  EXPECT_EQ(known.measurements.size(), 24U + 197U);
  EXPECT_EQ(known.costs.size(), 5U + 4U);
  for (const char* file : {"measurements/gb10", "measurements/h200", "costs/gb10", "costs/h200"}) {
    std::ifstream in(std::string(TETRAD_SOURCE_DIR) + "/data/" + file + ".json");
    std::stringstream text;
    text << in.rdbuf();
    Records into;
    EXPECT_TRUE(read_records(text.str(), file, into)) << file;
  }
}

}  // namespace
}  // namespace tetrad
