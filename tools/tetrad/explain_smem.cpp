#include "explain_smem.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "device_arg.hpp"
#include "tetrad/device.hpp"
#include "tetrad/tiles.hpp"

namespace tetrad::cli {
namespace {

constexpr std::string_view kTitle = "does NVFP4 fail on sm_121 because it has less shared memory than sm_120?";
constexpr std::array<const char*, 4> kDevices{"rtx-5090", "rtx-pro-6000", "gb10", "b200"};

struct Overflow {
  TileRequest request;
  TileFit fit;
};

// Every tile of CUTLASS whose own stage count allocates more than `limit`.
std::vector<Overflow> overflows(std::int64_t limit) {
  std::vector<Overflow> found;
  TileRequest request;
  request.limit = limit;
  for (const bool grouped : {false, true}) {
    for (const TileEpilogue epilogue : {TileEpilogue::void_c, TileEpilogue::c, TileEpilogue::finalize}) {
      for (const int m : {128, 256}) {
        for (const int n : {8, 16, 32, 64, 128, 256}) {
          for (const int k : {128, 256}) {
            request.m = m;
            request.n = n;
            request.k = k;
            request.grouped = grouped;
            request.epilogue = epilogue;
            Result<TileFit> fit = sm120_tile_fit(request);
            if (fit && fit->cutlass.total > limit) found.push_back({request, std::move(*fit)});
          }
        }
      }
    }
  }
  return found;
}

std::string words_of(const TileRequest& r) {
  return fmt::format("{}x{}x{} {}, {} epilogue", r.m, r.n, r.k, r.grouped ? "grouped" : "dense", name(r.epilogue));
}

std::string bytes_of(const Fact<std::int64_t>& fact) { return fact.known() ? std::to_string(*fact.value) : "unknown"; }

}  // namespace

int explain_smem_sm120(const Context& context) {
  std::vector<DeviceProfile> devices;
  for (const char* slug : kDevices) {
    Result<DeviceProfile> device = device_named(context, slug);
    if (!device) return report(context, device.error());
    devices.push_back(std::move(*device));
  }
  const DeviceProfile& sm120 = devices[0];
  const DeviceProfile& sm121 = devices[2];
  const DeviceProfile& sm100 = devices[3];
  for (const DeviceProfile* device : {&sm120, &sm121, &sm100}) {
    if (device->smem_per_block_optin.known()) continue;
    return report(context, {ErrorKind::unavailable,
                            "TE0704",
                            "the question has no answer without the device's limit",
                            device->slug,
                            "smem_per_block_optin_bytes",
                            "unknown",
                            {},
                            {}});
  }
  const std::int64_t limit120 = *sm120.smem_per_block_optin.value;
  const std::int64_t limit121 = *sm121.smem_per_block_optin.value;
  const std::int64_t limit100 = *sm100.smem_per_block_optin.value;
  const bool less = limit121 < limit120;

  TileRequest request;
  request.n = 256;
  request.grouped = true;
  request.epilogue = TileEpilogue::finalize;
  request.limit = limit120;
  const Result<TileFit> tile = sm120_tile_fit(request);
  if (!tile) return report(context, tile.error());
  request.limit = limit100;
  const Result<TileFit> large = sm120_tile_fit(request);
  if (!large) return report(context, large.error());
  const std::vector<Overflow> over = overflows(std::min(limit120, limit121));

  Table limits({{"DEVICE"}, {"CC"}, {"BYTES PER BLOCK", true}, {"PER SM", true}});
  std::string sources;
  nlohmann::json device_rows = nlohmann::json::array();
  for (const DeviceProfile& device : devices) {
    const std::string cc = fmt::format("{}.{}", device.cc.major, device.cc.minor);
    limits.row({device.name, cc, bytes_of(device.smem_per_block_optin), bytes_of(device.smem_per_sm)});
    const std::string source = "  " + device.smem_per_block_optin.source + "\n";
    if (sources.find(source) == std::string::npos) sources += source;
    nlohmann::json row{{"device", device.slug}, {"cc", cc}, {"source", device.smem_per_block_optin.source}};
    row["limit_bytes"] =
        device.smem_per_block_optin.known() ? nlohmann::json(*device.smem_per_block_optin.value) : nlohmann::json();
    device_rows.push_back(row);
  }
  Table table({{"TILE"}, {"CUTLASS", true}, {"BYTES", true}, {"OVER", true}, {"FITS AT", true}, {"BYTES", true}});
  nlohmann::json tile_rows = nlohmann::json::array();
  for (const auto& [r, fit] : over) {
    table.row({words_of(r), std::to_string(fit.cutlass.stages), std::to_string(fit.cutlass.total),
               std::to_string(fit.cutlass.total - r.limit), std::to_string(fit.fit.stages),
               std::to_string(fit.fit.total)});
    tile_rows.push_back({{"tile", fmt::format("{}x{}x{}", r.m, r.n, r.k)},
                         {"grouped", r.grouped},
                         {"epilogue", name(r.epilogue)},
                         {"stages", fit.cutlass.stages},
                         {"total_bytes", fit.cutlass.total},
                         {"over_bytes", fit.cutlass.total - r.limit},
                         {"fits_stages", fit.fit.stages},
                         {"fits_bytes", fit.fit.total}});
  }

  std::string text;
  if (less) {
    text += fmt::format("By the device files, yes: {} B on {}, {} B on {}.\n\n", limit121, sm121.slug, limit120,
                        sm120.slug);
  } else {
    text += fmt::format(
        "No. A block may opt into {} B on compute capability {}.{} and {} B on {}.{}:\n"
        "what overflows on one overflows on the other. The 228 KiB sometimes given for\n"
        "sm_120 are those of an SM of B200, which is compute capability {}.{}.\n\n",
        limit121, sm121.cc.major, sm121.cc.minor, limit120, sm120.cc.major, sm120.cc.minor, sm100.cc.major,
        sm100.cc.minor);
  }
  text += limits.text(context);
  text += fmt::format(
      "\nThe cause is the stage count. CUTLASS divides what is left of a fixed {} B by\n"
      "the bytes it charges for a stage: ({} - {} - {}) / {} = {} stages for\n"
      "{}. With alignment and all tensor maps the kernel\n"
      "allocates {} B, {} B more than either device allows; {} stages\n"
      "are {} B. A budget as large as B200's {} B would have given {} stages and {} B,\n"
      "so that budget is not what CUTLASS uses here.\n\n"
      "Tiles that overflow on sm_120 and sm_121 alike (16-bit output, CUTLASS 4.7.0)\n\n",
      tile->budget, tile->budget, tile->reserved, tile->carveout, tile->stage_bytes, tile->cutlass.stages,
      words_of(request), tile->cutlass.total, tile->cutlass.total - limit120, tile->fit.stages, tile->fit.total,
      limit100, large->fit.stages, large->fit.total);
  text += table.text(context);
  text +=
      "\nOther tiles fit. kErrorInternal from one of them has another cause: most often no\n"
      "code for the device ('tetrad binary FILE --device gb10' shows it).\n"
      "Sizes are computed and compared with CUTLASS's templates (docs/tiles.md). Reports:\n"
      "NVIDIA/cutlass#3144 and #3096. Limits of the devices:\n" +
      sources + "To count stages by what is allocated: include/tetrad/cutlass/stage_count.hpp\n";
  if (context.json) {
    nlohmann::json out = document(context, "tetrad.explain/1.0");
    out["id"] = kTopicSmemSm120;
    out["title"] = kTitle;
    out["text"] = text;
    out["answer"] = less ? "yes" : "no";
    out["devices"] = device_rows;
    out["overflows"] = tile_rows;
    print_json(out);
  } else {
    print(fmt::format("{} {}\n\n{}", paint(context.color_out, Style::bold, kTopicSmemSm120), kTitle, text));
  }
  return kOk;
}

}  // namespace tetrad::cli
