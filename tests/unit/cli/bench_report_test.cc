// SPDX-License-Identifier: Apache-2.0
// Documents: parsing, rejection, verdicts and the HTML page.
#include "cli/bench/report.h"

#include <gtest/gtest.h>

#include "cli/bench/drawing.h"
#include "cli/bench/findings.h"
#include "cli/bench/wording.h"
#include "tests/unit/cli/temp_directory.h"

namespace nfsrdma::cli::bench {
namespace {

Json runs(const std::vector<double>& values, const char* key) {
  Json out = Json::array();
  for (const double value : values) out.push_back({{"round", out.size()}, {key, value}});
  return out;
}

// Two mounts and a ceiling, plots of all kinds, and targets with each verdict.
Json sample() {
  Json document{{"format", kFormat},
                {"title", "A test"},
                {"date", "2026-11-22T15:00:00Z"},
                {"conditions", Json::array({Json::array({"processor", "two"})})},
                {"notes", Json::array({"a note"})},
                {"contenders", Json::array({{{"name", "RDMA"}, {"role", "ours"}, {"about", "by RDMA"}},
                                            {{"name", "TCP"}, {"role", "ours"}},
                                            {{"name", "relay"}, {"role", "ceiling"}}})},
                {"measurements", Json::array()},
                {"plots", Json::array()},
                {"targets", Json::array()}};
  const auto measure = [&](const char* metric, const char* who, Json at, Json values) {
    document["measurements"].push_back(
        {{"metric", metric}, {"contender", who}, {"at", std::move(at)}, {"runs", std::move(values)}});
  };
  measure("read", "RDMA", Json::object(), runs({120, 121, 122, 123, 124}, "mib_per_s"));
  measure("read", "TCP", Json::object(), runs({100, 100, 100, 100, 100}, "mib_per_s"));
  measure("read", "relay", Json::object(), runs({110, 140, 110, 140, 124}, "mib_per_s"));
  for (const double block : {512., 1024.}) {
    for (const double ahead : {0., 4.}) {
      for (const char* who : {"RDMA", "TCP"}) {
        Json values = Json::array();
        for (unsigned round = 0; round < 5; ++round)
          values.push_back(
              {{"round", round}, {"mib_per_s", block * (ahead + 1) + round}, {"cpu_percent", 50 + round}});
        measure("grid", who, {{"block", block}, {"ahead", ahead}}, std::move(values));
      }
    }
  }
  const Json pair = Json::array({{{"of", "RDMA"}, {"over", "TCP"}}});
  const auto plot = [&](const char* kind, const char* metric, Json more) {
    Json made{{"kind", kind},
              {"title", kind},
              {"metrics", Json::array({metric})},
              {"y", "mib_per_s"},
              {"compare", pair}};
    made.update(more);
    document["plots"].push_back(made);
  };
  plot("bars", "read", Json::object());
  plot("lines", "grid", {{"x", "block"}, {"where", {{"ahead", 4}}}});
  plot("grid", "grid", {{"x", "block"}, {"along", "ahead"}});
  plot("map", "grid", {{"x", "block"}, {"along", "ahead"}});
  plot("cloud", "grid",
       {{"x", "mib_per_s"}, {"y", "cpu_percent"}, {"along", "block"}, {"where", {{"ahead", 4}}}});
  const auto target = [&](const char* of, std::vector<const char*> over, Json bound) {
    Json made{{"what", of}, {"key", "mib_per_s"}, {"of", {{"metric", "read"}, {"contender", of}}}};
    for (const char* who : over) made["over"].push_back({{"metric", "read"}, {"contender", who}});
    made.update(bound);
    document["targets"].push_back(made);
  };
  target("RDMA", {"TCP"}, {{"at_least", 1.2}});
  target("RDMA", {"TCP"}, {{"at_most", 1.0}});
  target("RDMA", {"relay"}, {{"at_least", 1.0}});
  target("RDMA", {"TCP", "TCP"}, {{"combine", "series"}, {"at_least", 2.4}});
  target("RDMA", {"TCP", "TCP"}, {{"combine", "sum"}, {"at_most", 0.62}});
  target("RDMA", {"relay"}, Json::object());
  return document;
}

Document parsed(const Json& json) {
  auto document = document_from_text(json.dump());
  EXPECT_TRUE(document) << document.error().text;
  return document ? *std::move(document) : Document();
}

std::string refusal(const Json& json) {
  const auto document = document_from_text(json.dump());
  return document ? "taken" : document.error().text;
}

TEST(BenchDocument, WrittenAndReadAgain_IsTheSame) {
  const Document document = parsed(sample());
  EXPECT_EQ(document.measurements.size(), 11u);
  EXPECT_EQ(to_json(parsed(to_json(document))), to_json(document));
  EXPECT_EQ(Json::parse(json_text(document)), to_json(document));
}

TEST(BenchDocument, WhatIsNotInTheFormat_IsRefusedAndNamed) {
  const auto changed = [](const char* pointer, Json value) {
    Json json = sample();
    json[Json::json_pointer(pointer)] = std::move(value);
    return refusal(json);
  };
  EXPECT_NE(changed("/format", "nfsrdma-bench 9").find("nfsrdma-bench 9"), std::string::npos);
  EXPECT_NE(changed("/surprise", 1).find("surprise"), std::string::npos);
  EXPECT_NE(changed("/contenders/0/role", "friend").find("friend"), std::string::npos);
  EXPECT_NE(changed("/measurements/0/contender", "nobody").find("nobody"), std::string::npos);
  EXPECT_NE(changed("/measurements/0/runs/0/parsecs", 1).find("parsecs"), std::string::npos);
  EXPECT_NE(changed("/measurements/0/runs/1/round", 0).find("twice"), std::string::npos);
  EXPECT_NE(changed("/measurements/0/runs/0/mib_per_s", "fast").find("number"), std::string::npos);
  EXPECT_NE(changed("/measurements/1/contender", "RDMA").find("twice"), std::string::npos);
  EXPECT_NE(changed("/plots/0/kind", "pie").find("pie"), std::string::npos);
  EXPECT_NE(changed("/plots/0/x", "block").find("kind"), std::string::npos);
  EXPECT_NE(changed("/plots/1/metrics", Json::array()).find("metrics"), std::string::npos);
  EXPECT_NE(changed("/plots/0/compare/0/over", "nobody").find("nobody"), std::string::npos);
  EXPECT_NE(changed("/targets/0/at_most", 1).find("two bounds"), std::string::npos);
  EXPECT_NE(refusal(Json::array()).find("object"), std::string::npos);
  EXPECT_EQ(document_from_text("{").error().text, "no JSON");
}

TEST(BenchFindings, TargetsAreMetMissedOrUndecided) {
  const auto judged = judge(parsed(sample()));
  ASSERT_EQ(judged.size(), 6u);
  EXPECT_EQ(judged[0].verdict, Verdict::kMet);  // a value equal to the bound meets it
  EXPECT_EQ(judged[1].verdict, Verdict::kMissed);
  EXPECT_EQ(judged[2].verdict, Verdict::kUndecided);
  EXPECT_EQ(judged[3].verdict, Verdict::kMet);  // relative to 1/(1/100 + 1/100)
  EXPECT_NEAR(judged[3].ratio->median, 2.44, 1e-9);
  EXPECT_EQ(judged[4].verdict, Verdict::kMet);  // relative to 100 + 100
  EXPECT_EQ(judged[5].verdict, Verdict::kShown);
}

TEST(BenchFindings, ATargetOverNothing_IsForTheValueItself) {
  Json json = sample();
  json["targets"][0]["over"] = Json::array();
  json["targets"][0]["at_least"] = 119;
  const auto judged = judge(parsed(json));
  EXPECT_EQ(judged[0].verdict, Verdict::kMet);
  EXPECT_EQ(show_ratio(*judged[0].ratio), "122 (120 … 124)");
}

TEST(BenchFindings, ATargetOfWhatWasNotMeasured_HasNoVerdict) {
  Json json = sample();
  json["targets"][0]["of"]["metric"] = "never done";
  EXPECT_EQ(judge(parsed(json))[0].verdict, Verdict::kAbsent);
}

TEST(BenchFindings, SentencesSayWhoIsAheadAndWhereThatCannotBeTold) {
  Json json = sample();
  json["plots"][0]["compare"].push_back({{"of", "RDMA"}, {"over", "relay"}});
  const Document document = parsed(json);
  EXPECT_EQ(
      findings(document, document.plots[0]),
      (std::vector<std::string>{
          "RDMA is 22 % faster than TCP for read (range 20 to 24 %).",
          "There is no clear difference between RDMA and relay for read (14 % slower to 11 % faster)."}));
  EXPECT_EQ(findings(document, document.plots[1]),
            std::vector<std::string>{"RDMA is as fast as TCP with 512 B and 1 KiB."});
  EXPECT_EQ(findings(document, document.plots[2]),
            (std::vector<std::string>{"RDMA reaches 5122 MiB/s at its best, with 1 KiB and read-ahead 4.",
                                      "TCP reaches 5122 MiB/s at its best, with 1 KiB and read-ahead 4.",
                                      "At their best, RDMA is as fast as TCP."}));
  EXPECT_EQ(findings(document, document.plots[3]),
            std::vector<std::string>{
                "RDMA is faster in 0 of 4 combinations, TCP in 0; in 4 there is no clear difference."});
  EXPECT_EQ(findings(document, document.plots[4]),
            std::vector<std::string>{
                "For the same throughput, RDMA takes as much CPU as TCP with 512 B and 1 KiB."});
}

std::string said(const char* quantity, const std::vector<Compared>& all, const std::string& before = "for ") {
  return compared_sentences(*find_quantity(quantity), {"files", "kernel, tcp"}, before, all);
}

Ratio ratio(double median, double low, double high, size_t pairs = 9) {
  return {median, low, high, pairs, false};
}

TEST(BenchWording, ComparisonsAreSentences) {
  EXPECT_EQ(said("mib_per_s", {{"read", ratio(0.88, 0.85, 0.9)}}),
            "files is 12 % slower than “kernel, tcp” for read (range 10 to 15 %).");
  EXPECT_EQ(said("mib_per_s", {{"read", ratio(3.42, 1.8, 4.2)}}),
            "files is 3.4 times as fast as “kernel, tcp” for read (range 80 % to 4.2 times as fast).");
  EXPECT_EQ(
      said("mib_per_s", {{"read", ratio(1.2, 1.1, 1.3)},
                         {"write", ratio(2.5, 2.4, 2.6)},
                         {"create", ratio(0.7, 0.7, 0.7)},
                         {"stat", ratio(1.02, 0.91, 1.1)}}),
      "files is faster than “kernel, tcp” for read (20 %, range 10 to 30 %) and write (2.5 times as fast, "
      "range 2.4 to 2.6 times). It is 30 % slower for create. There is no clear difference for stat (9 % "
      "slower to 10 % faster).");
  EXPECT_EQ(
      said("p99_us", {{"one at a time", ratio(1.2, 1.2, 1.2)}, {"32 at once", ratio(0.8, 0.8, 0.8)}}, ""),
      "The slowest 1 % of files take 20 % longer than those of “kernel, tcp” one at a time. They take 20 % "
      "less time 32 at once.");
  EXPECT_EQ(
      said("rpcs", {{"git clone", {0.007, 0.007, 0.007, 1, true}}, {"ninja", {1, 1, 1, 1, true}}}),
      "files sends 99.3 % fewer calls than “kernel, tcp” for git clone. It sends as many calls for ninja.");
}

TEST(BenchWording, FewRoundsAreNoFinding) {
  EXPECT_EQ(
      said("mib_per_s", {{"read", ratio(1.2, 1.1, 1.3, 2)}, {"write", ratio(0.9, 0.8, 0.95, 2)}}),
      "2 rounds are too few to be sure; so far files is 20 % faster than “kernel, tcp” for read. It is 10 % "
      "slower for write.");
  EXPECT_EQ(said("p99_us", {{"", ratio(1.2, 1.2, 1.2, 1)}}),
            "One round is too few to be sure; so far the slowest 1 % of files take 20 % longer than those of "
            "“kernel, tcp”.");
  EXPECT_EQ(said("mib_per_s", {}), "");
}

TEST(BenchReport, TheText_HasSentencesTablesAndVerdicts) {
  const std::string text = text_report(parsed(sample()));
  for (const char* part : {"RDMA is 22 % faster than TCP for read", "median", "read-ahead 4", "met ",
                           "MISSED", "undecided", "Note: a note"})
    EXPECT_NE(text.find(part), std::string::npos) << part;
}

TEST(BenchReport, ThePage_HoldsTheDocumentAndNothingFromOutside) {
  const Document document = parsed(sample());
  const std::string page = html_report(document);
  const std::string begin = "<script type=\"application/json\" id=\"document\">";
  const size_t from = page.find(begin) + begin.size();
  EXPECT_EQ(Json::parse(page.substr(from, page.find("</script>", from) - from)), to_json(document));
  EXPECT_EQ(page.find("{{"), std::string::npos) << "a place that was not filled";
  for (const char* outside : {"src=", "href=", "@import", "url(http", "fetch(", "XMLHttpRequest", "<link"})
    EXPECT_EQ(page.find(outside), std::string::npos) << outside;
  // The only address is the name of SVG's namespace; browsers do not fetch it.
  for (size_t at = page.find("://"); at != std::string::npos; at = page.find("://", at + 1))
    EXPECT_EQ(page.substr(at - 4, 26), "http://www.w3.org/2000/svg") << page.substr(at - 10, 60);
}

TEST(BenchReport, TextOfTheDocument_CannotEndItsScript) {
  Json json = sample();
  json["title"] = "</script><script>alert(1)</script><!--";
  json["contenders"][2]["about"] = "<img src=x>";
  const std::string page = html_report(parsed(json));
  EXPECT_EQ(page.find("alert(1)</script>"), std::string::npos);
  EXPECT_EQ(page.find("<img"), std::string::npos);
  EXPECT_NE(page.find("\\u003c/script>\\u003cscript>alert(1)"), std::string::npos);
}

TEST(BenchReport, TheDrawing_HasEveryPlotWithItsNumbers) {
  const Json drawing = drawing_of(parsed(sample()));
  ASSERT_EQ(drawing["plots"].size(), 5u);
  EXPECT_EQ(drawing["where"][1], Json::array({"processor", "two"}));
  EXPECT_EQ(drawing["where"][2], Json::array({"kernel", "not recorded"}));
  EXPECT_EQ(drawing["plots"][0]["groups"][0]["rows"][0]["v"], 122);
  EXPECT_EQ(drawing["plots"][0]["groups"][0]["rows"].size(), 3u);
  EXPECT_EQ(drawing["plots"][2]["panels"].size(), 2u);
  EXPECT_EQ(drawing["plots"][2]["panels"][0]["series"].size(), 2u);
  EXPECT_EQ(drawing["plots"][3]["cells"].size(), 2u);
  EXPECT_EQ(drawing["plots"][3]["cells"][0][0]["standing"], "spread");
  EXPECT_EQ(drawing["plots"][4]["panels"][0]["series"][0]["points"][0]["x"], 2562);
  EXPECT_EQ(drawing["targets"].size(), 6u);
}

TEST(BenchReport, AFile_IsReplacedAsAWholeOrLeftAlone) {
  const TempDirectory directory;
  const std::string file = directory.write("run.json", sample().dump());
  EXPECT_TRUE(read_document(file));
  EXPECT_TRUE(write_file(file, "short"));
  EXPECT_NE(read_document(file).error().text.find(file), std::string::npos);
  EXPECT_FALSE(write_file(directory.path("missing/run.json"), "x"));
  EXPECT_FALSE(read_document(directory.path("absent")));
  EXPECT_TRUE(write_file("/dev/null", "is written to, not replaced"));
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
  const std::string link = directory.path("link"), beside = directory.write("run.json.new", "somebody's");
  std::filesystem::create_symlink(file, link);
  EXPECT_TRUE(write_file(link, sample().dump())) << "written through";
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_TRUE(read_document(file));
  EXPECT_EQ(std::filesystem::file_size(beside), 10u);
}

TEST(BenchQuantity, ValuesAndPointsAreForPeople) {
  EXPECT_EQ(show_value(*find_quantity("mib_per_s"), 1240.4, true), "1240 MiB/s");
  EXPECT_EQ(show_value(*find_quantity("ops_per_s"), 146185, true), "146,185/s");
  EXPECT_EQ(show_value(*find_quantity("cpu_per_gib"), 0.2834, false), "0.283");
  EXPECT_EQ(show_point(*find_quantity("block"), 262144), "256 KiB");
  EXPECT_EQ(show_point(*find_quantity("ahead"), 16), "read-ahead 16");
  EXPECT_EQ(show_point(*find_quantity("inodes"), 1e6), "1,000,000 inodes");
  EXPECT_EQ(find_quantity("parsecs"), nullptr);
}

}  // namespace
}  // namespace nfsrdma::cli::bench
