// tetrad tiles: does a tile fit this device, and with how many stages?
#include <fmt/format.h>

#include <array>
#include <memory>
#include <optional>

#include "cli.hpp"
#include "device_arg.hpp"
#include "tetrad/device.hpp"
#include "tetrad/tiles.hpp"

namespace tetrad::cli {
namespace {

struct Flags {
  std::string device = "gb10";
  std::string tile;
  std::string epilogue = "void";
  std::string out = "bf16";
  std::string schedule = "cooperative";
  std::string cutlass = "4.7.0";
  bool grouped = false;
  bool swap_ab = false;
};

Error usage(std::string what, std::string need, std::string have) {
  return {ErrorKind::usage, "TE0703", std::move(what), {}, std::move(need), std::move(have), {}, {}};
}

Status parse_tile(const std::string& text, TileRequest& request) {
  int length = 0;
  if (text.size() > 20 ||
      std::sscanf(text.c_str(), "%4dx%4dx%4d%n", &request.m, &request.n, &request.k, &length) != 3 ||
      static_cast<std::size_t>(length) != text.size()) {
    return usage("not a tile", "MxNxK in elements, like 128x128x128", fmt::format("'{}'", text.substr(0, 40)));
  }
  return ok();
}

// Why there is no account for a device outside 12.x.
Error other_generation(const DeviceProfile& facts) {
  std::string why = "the account covers CUTLASS's SM120 kernels only";
  if (facts.cc.major == 10) {
    why =
        "no account of SM100's block-scaled kernels: their members were not compared with a compiler; CUTLASS checks "
        "their size itself, at compile time";
  } else if (facts.cc.major < 10) {
    why = "no block-scaled FP4 kernels on this device: its tensor cores take no FP4 operands";
  }
  Error error = usage(std::move(why), "a device of compute capability 12.x",
                      fmt::format("{}, {}.{}", facts.slug, facts.cc.major, facts.cc.minor));
  error.kind = ErrorKind::unavailable;
  error.hint = "tetrad devices";
  return error;
}

struct Question {
  DeviceProfile device;
  TileRequest request;
  std::int64_t smem_per_sm = 0;
};

Result<Question> question_of(const Flags& flags, const Context& context) {
  Question question;
  Result<DeviceProfile> device = device_named(context, flags.device);
  if (!device) return device.error();
  question.device = std::move(*device);
  const DeviceProfile& facts = question.device;
  if (facts.cc.major != 12 || !facts.smem_per_block_optin.known() || !facts.smem_per_sm.known()) {
    return other_generation(facts);
  }
  question.smem_per_sm = *facts.smem_per_sm.value;
  TileRequest& request = question.request;
  request.limit = *facts.smem_per_block_optin.value;
  request.grouped = flags.grouped;
  request.swap_ab = flags.swap_ab;
  request.schedule = flags.schedule == "pingpong" ? TileSchedule::pingpong : TileSchedule::cooperative;
  request.epilogue = flags.epilogue == "c"          ? TileEpilogue::c
                     : flags.epilogue == "finalize" ? TileEpilogue::finalize
                                                    : TileEpilogue::void_c;
  request.out = *parse_dtype(flags.out);
  Result<CutlassVersion> version = parse_cutlass_version(flags.cutlass);
  if (!version) return version.error();
  request.cutlass = *version;
  if (!flags.tile.empty()) {
    if (Status status = parse_tile(flags.tile, request); !status) return status.error();
  }
  return question;
}

std::string tile_text(const TileRequest& r) { return fmt::format("{}x{}x{}", r.m, r.n, r.k); }

nlohmann::json json_of(const TileAccount& account) {
  nlohmann::json members = nlohmann::json::array();
  for (const TileMember& member : account.members) {
    members.push_back(
        {{"name", member.name}, {"offset", member.offset}, {"bytes", member.bytes}, {"align", member.align}});
  }
  return {{"stages", account.stages},
          {"total_bytes", account.total},
          {"padding_bytes", account.padding},
          {"members", members}};
}

nlohmann::json json_of(const TileRequest& request, const TileFit& fit) {
  return {{"tile", tile_text(request)},
          {"stage_bytes", fit.stage_bytes},
          {"reserved_bytes", fit.reserved},
          {"carveout_bytes", fit.carveout},
          {"budget_bytes", fit.budget},
          {"limit_bytes", request.limit},
          {"cutlass", json_of(fit.cutlass)},
          {"fit", json_of(fit.fit)},
          {"fits", fit.cutlass.total <= request.limit},
          {"blocks_per_sm", fit.blocks_per_sm},
          {"source", name(fit.source)},
          {"notes", fit.notes}};
}

std::string verdict(const Context& context, const TileFit& fit, std::int64_t limit) {
  if (fit.cutlass.total <= limit) return paint(context.color_out, Style::green, "fits");
  return paint(context.color_out, Style::red, fmt::format("over by {} B", fit.cutlass.total - limit));
}

std::string_view source_text(TileSource source) {
  switch (source) {
    case TileSource::compiled:
      return "computed; equal to CUTLASS's compiled templates (docs/tiles.md)";
    case TileSource::page:
      return "computed; equal to published sizes, not compiled here (docs/tiles.md)";
    case TileSource::formula:
      break;
  }
  return "computed; this kind of tile was compared with nothing (docs/tiles.md)";
}

void print_one(const Context& context, const Question& question, const TileFit& fit) {
  const TileRequest& r = question.request;
  print(fmt::format("tile      {} {}, {} epilogue, out {}{}{}, CUTLASS {}.{}.{}\n", tile_text(r), name(r.schedule),
                    name(r.epilogue), name(r.out), r.grouped ? ", grouped" : ", dense", r.swap_ab ? ", swap-ab" : "",
                    r.cutlass.major, r.cutlass.minor, r.cutlass.patch));
  print(fmt::format("device    {} sm_{}{}, {} B shared memory per block ({})\n", question.device.name,
                    question.device.cc.major, question.device.cc.minor, r.limit,
                    question.device.smem_per_block_optin.source));
  print(fmt::format("CUTLASS   ({} - {} reserved - {} epilogue) / {} per stage = {} stages -> {} B allocated: {}\n",
                    fit.budget, fit.reserved, fit.carveout, fit.stage_bytes, fit.cutlass.stages, fit.cutlass.total,
                    verdict(context, fit, r.limit)));
  if (fit.fit.stages == 0) {
    print("fits      no stage count of 2 or more\n");
  } else {
    print(fmt::format("fits      {} stages -> {} B, {} B remain; {} block(s) per SM\n", fit.fit.stages, fit.fit.total,
                      r.limit - fit.fit.total, fit.blocks_per_sm));
  }
  Table table({{"OFFSET", true}, {"BYTES", true}, {"ALIGN", true}, {"MEMBER"}});
  std::int64_t end = 0;
  const TileAccount& account = fit.cutlass;
  const auto gap = [&](std::int64_t next) {
    if (next > end) table.row({std::to_string(end), std::to_string(next - end), "", "(padding)"});
  };
  for (const TileMember& member : account.members) {
    gap(member.offset);
    table.row({std::to_string(member.offset), std::to_string(member.bytes), std::to_string(member.align), member.name});
    end = member.offset + member.bytes;
  }
  gap(account.total);
  print(fmt::format("\naccount with {} stages\n{}", account.stages, table.text(context)));
  print(fmt::format("source: {}\n", source_text(fit.source)));
  for (const std::string& note : fit.notes) print(fmt::format("note: {}\n", note));
}

int print_all(const Context& context, Question question) {
  constexpr std::array<std::array<int, 3>, 10> kTiles{{{128, 8, 128},
                                                       {128, 16, 128},
                                                       {128, 32, 128},
                                                       {128, 32, 256},
                                                       {128, 64, 128},
                                                       {128, 64, 256},
                                                       {128, 128, 128},
                                                       {128, 128, 256},
                                                       {128, 256, 128},
                                                       {256, 128, 128}}};
  Table table({{"TILE"},
               {"STAGES", true},
               {"BYTES", true},
               {"VERDICT"},
               {"FITS AT", true},
               {"BYTES", true},
               {"REMAIN", true},
               {"SOURCE"}});
  nlohmann::json rows = nlohmann::json::array();
  for (const auto& [m, n, k] : kTiles) {
    TileRequest& request = question.request;
    request.m = m;
    request.n = n;
    request.k = k;
    const Result<TileFit> fit = sm120_tile_fit(request, question.smem_per_sm);
    if (!fit) {
      table.row({tile_text(request), "-", "-", fmt::format("refused: need {}", fit.error().need), "", "", "", ""});
      rows.push_back({{"tile", tile_text(request)},
                      {"refused", fit.error().what},
                      {"need", fit.error().need},
                      {"have", fit.error().have}});
      continue;
    }
    rows.push_back(json_of(request, *fit));
    table.row({tile_text(request), std::to_string(fit->cutlass.stages), std::to_string(fit->cutlass.total),
               verdict(context, *fit, request.limit), std::to_string(fit->fit.stages), std::to_string(fit->fit.total),
               std::to_string(request.limit - fit->fit.total), std::string(name(fit->source))});
  }
  if (context.json) {
    nlohmann::json out = document(context, "tetrad.tiles/1.0");
    out["device"] = question.device.slug;
    out["tiles"] = rows;
    print_json(out);
    return kOk;
  }
  print(fmt::format("{}: {} B per block; CUTLASS SM120 NVFP4, {} {}, {} epilogue, out {}\n\n", question.device.name,
                    question.request.limit, question.request.grouped ? "grouped" : "dense",
                    name(question.request.schedule), name(question.request.epilogue), name(question.request.out)));
  print(table.text(context));
  return kOk;
}

int tiles(const Context& context, const Flags& flags) {
  Result<Question> question = question_of(flags, context);
  if (!question) return report(context, question.error());
  if (flags.tile.empty()) return print_all(context, std::move(*question));
  const Result<TileFit> fit = sm120_tile_fit(question->request, question->smem_per_sm);
  if (!fit) return report(context, fit.error());
  if (context.json) {
    nlohmann::json out = document(context, "tetrad.tiles/1.0");
    out["device"] = question->device.slug;
    out["tiles"] = nlohmann::json::array({json_of(question->request, *fit)});
    print_json(out);
  } else {
    print_one(context, *question, *fit);
  }
  return fit->cutlass.total <= question->request.limit ? kOk : kFindings;
}

}  // namespace

Verb verb_tiles() {
  Verb verb;
  verb.name = "tiles";
  verb.group = "Choose and run";
  verb.summary = "Shared-memory account and stage count of a tile";
  verb.examples =
      "tetrad tiles --device gb10\n"
      "tetrad tiles --device gb10 --tile 128x256x128 --grouped --epilogue finalize";
  verb.add = [](CLI::App& app) -> Action {
    auto flags = std::make_shared<Flags>();
    app.add_option("--device", flags->device, "Device whose limit counts (default gb10)");
    app.add_option("--tile", flags->tile, "MxNxK in elements; without it, every tile CUTLASS builds");
    app.add_option("--epilogue", flags->epilogue, "void, c or finalize (default void)")
        ->check(CLI::IsMember({"void", "c", "finalize"}));
    app.add_option("--out", flags->out, "Output type: bf16, f16 or f32 (default bf16)")
        ->check(CLI::IsMember({"bf16", "f16", "f32"}));
    app.add_option("--schedule", flags->schedule, "cooperative or pingpong (default cooperative)")
        ->check(CLI::IsMember({"cooperative", "pingpong"}));
    app.add_option("--cutlass", flags->cutlass, "CUTLASS release (default 4.7.0)");
    app.add_flag("--grouped", flags->grouped, "A grouped kernel (MoE)");
    app.add_flag("--swap-ab", flags->swap_ab, "Operands swapped (finalize epilogue)");
    return [flags](Context& context) { return tiles(context, *flags); };
  };
  return verb;
}

}  // namespace tetrad::cli
